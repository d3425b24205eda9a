import GatewayProtocol
import System

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
