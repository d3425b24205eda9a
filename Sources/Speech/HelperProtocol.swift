import Audio
import Crypto
import GatewayProtocol
import System

/// The language in which a long-lived helper program is spoken to: one JSON object a line, UTF-8, requests on its standard input and
/// answers on its standard output. Its standard error is its own. `config/recipes/README.md` tells authors of helpers the same.
///
/// The helper begins with `{"type":"ready","audio":"pcm"}` (or `"wav"`), with `"partials":true` when it sends partial texts. Then, one
/// utterance after another:
///
///     → {"type":"start","id":"1","rate":16000,"language":"en"}        ("language" only when it is known)
///     → {"type":"audio","id":"1","pcm":"<base64 of 16-bit little-endian mono samples>"}   as it is heard
///     ← {"type":"partial","id":"1","text":"turn on"}                  the whole text so far, any number of times
///     ← {"type":"endpoint","id":"1","text":"turn on the light"}       the speaker has finished; optional
///     → {"type":"finish","id":"1"}                                    all has been heard
///     ← {"type":"final","id":"1","text":"turn on the light"}          the whole text; ends the utterance
///
/// A helper that asked for `wav` gets `{"type":"transcribe","id":"1","wav":"/path","language":"en"}` instead of the first two and
/// `finish`; the file is there until it answers. `{"type":"cancel","id":"1"}` ends an utterance without an answer. An utterance that
/// can't be transcribed is answered with `{"type":"error","id":"1","message":"why"}`. The end of its input means that it is to exit.
enum HelperRequest: Sendable, Equatable {
  case start(id: Int, rate: Int, language: String?)
  case audio(id: Int, ArraySlice<Int16>)
  case finish(id: Int)
  case transcribe(id: Int, wav: String, language: String?)
  case cancel(id: Int)

  var line: [UInt8] {
    let json: JSON =
      switch self {
      case .start(let id, let rate, let language):
        .object(present: [
          "type": "start", "id": .string(String(id)), "rate": .int(Int64(rate)), "language": language.map(JSON.string),
        ])
      case .audio(let id, let samples):
        ["type": "audio", "id": .string(String(id)), "pcm": .string(HelperRequest.base64(samples))]
      case .finish(let id): ["type": "finish", "id": .string(String(id))]
      case .transcribe(let id, let wav, let language):
        .object(present: [
          "type": "transcribe", "id": .string(String(id)), "wav": .string(wav), "language": language.map(JSON.string),
        ])
      case .cancel(let id): ["type": "cancel", "id": .string(String(id))]
      }
    return json.encoded() + [0x0A]
  }

  private static func base64(_ samples: ArraySlice<Int16>) -> String {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(samples.count * 2)
    for sample in samples {
      let bits = UInt16(bitPattern: sample)
      bytes.append(UInt8(truncatingIfNeeded: bits))
      bytes.append(UInt8(truncatingIfNeeded: bits >> 8))
    }
    return Base64.encode(bytes)
  }
}

/// What a helper says.
enum HelperMessage: Sendable, Equatable {
  enum AudioForm: String, Sendable { case pcm, wav }
  case ready(AudioForm, hasPartials: Bool)
  case partial(id: Int, String)
  case endpoint(id: Int, String)
  case final(id: Int, String)
  /// Without an id it is about the helper as a whole.
  case error(id: Int?, String)

  /// A longer line ends the helper: it does not speak this language.
  static let lineLimit = 256 << 10

  /// Nil for lines that are no message: helpers and their libraries also print other things.
  init?(line: some Collection<UInt8>) {
    guard let json = try? JSON(parsing: line, depth: 8), let type = json["type"]?.string else { return nil }
    let id = json["id"].flatMap { $0.string.flatMap { Int($0) } ?? $0.int.flatMap { Int(exactly: $0) } }
    let text = TranscriptText.clean(json["text"]?.string ?? "")
    switch (type, id) {
    case ("ready", _):
      guard let form = AudioForm(rawValue: json["audio"]?.string ?? "pcm") else { return nil }
      self = .ready(form, hasPartials: json["partials"]?.bool ?? false)
    case ("partial", let id?): self = .partial(id: id, text)
    case ("endpoint", let id?): self = .endpoint(id: id, text)
    case ("final", let id?): self = .final(id: id, text)
    case ("error", let id): self = .error(id: id, String((json["message"]?.string ?? "no reason given").prefix(200)))
    default: return nil
    }
  }
}

/// Cuts a stream of bytes into lines.
struct LineReader: Sendable {
  let limit: Int
  private var rest: [UInt8] = []
  /// Whether a line was longer than the limit. Nothing is read after that.
  private(set) var isOverlong = false

  init(limit: Int) { self.limit = limit }

  mutating func lines(of bytes: [UInt8]) -> [[UInt8]] {
    if isOverlong { return [] }
    var lines: [[UInt8]] = []
    var start = bytes.startIndex
    while let end = bytes[start...].firstIndex(of: 0x0A) {
      lines.append(rest + bytes[start..<end])
      rest = []
      start = end + 1
    }
    rest += bytes[start...]
    if rest.count > limit || lines.contains(where: { $0.count > limit }) {
      isOverlong = true
      rest = []
    }
    return isOverlong ? [] : lines
  }
}

/// What recognisers print, made into a transcript.
public enum TranscriptText {
  /// The longest transcript that is kept, in characters (the gateway's limit for one).
  public static let limit = 20_000

  /// Without the times that whisper.cpp prints in front of a line, without `[BLANK_AUDIO]` and the like, in single spaces. Text that
  /// says only what noise there was, such as `(wind blowing)`, is empty.
  public static func clean(_ text: String) -> String {
    var out = ""
    var rest = text.prefix(limit * 2)
    while let open = rest.firstIndex(of: "[") {
      out += rest[..<open]
      rest = rest[open...]
      guard let close = rest.prefix(80).firstIndex(of: "]") else { break }
      let inner = rest[rest.index(after: open)..<close]
      if !isTime(inner) && !isNoise(inner) { out += rest[...close] } else { out += " " }
      rest = rest[rest.index(after: close)...]
    }
    out += rest
    let words = out.split(whereSeparator: \.isWhitespace).joined(separator: " ")
    let isNoteOnly = [("(", ")"), ("[", "]"), ("*", "*")].contains { words.hasPrefix($0.0) && words.hasSuffix($0.1) }
    if isNoteOnly && !words.dropFirst().dropLast().contains(where: { "()[]".contains($0) }) { return "" }
    return String(words.prefix(limit)).trimmed
  }

  /// The transcript in what a one-shot command printed: the member `text` of a JSON object, or all of it.
  public static func of(output: [UInt8]) -> String {
    if output.first(where: { $0 > 0x20 }) == UInt8(ascii: "{"), let text = (try? JSON(parsing: output))?["text"]?.string
    {
      return clean(text)
    }
    return clean(String(decoding: output, as: UTF8.self))
  }

  private static func isTime(_ inner: Substring) -> Bool {
    inner.contains("-->") && inner.allSatisfy { "0123456789:.,-> ".contains($0) }
  }

  /// `BLANK_AUDIO`, `MUSIC PLAYING`, `Music`, `silence`
  private static func isNoise(_ inner: Substring) -> Bool {
    let word = inner.trimmed
    if ["music", "silence", "noise", "applause", "laughter", "inaudible"].contains(word.lowercased()) { return true }
    return word.count > 2 && word.allSatisfy { $0.isUppercase || $0 == "_" || $0 == " " }
  }
}
