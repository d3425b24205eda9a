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
package enum HelperMessage: Sendable, Equatable {
  package enum AudioForm: String, Sendable { case pcm, wav }
  case ready(AudioForm, hasPartials: Bool)
  case partial(id: Int, String)
  case endpoint(id: Int, String)
  case final(id: Int, String)
  /// Without an id it is about the helper as a whole.
  case error(id: Int?, String)

  /// A longer line ends the helper: it does not speak this language.
  static let lineLimit = 256 << 10

  /// Nil for lines that are no message: helpers and their libraries also print other things.
  package init?(line: some Collection<UInt8>) {
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
