import System

/// The 32 bytes of a certificate fingerprint as people copy it: 64 hexadecimal digits in either case, with colons, spaces or
/// hyphens between, and a label like `sha256:` or `SHA256 Fingerprint=` before them (protocol §8). Nil for anything else.
public func fingerprint(parsing text: String) -> [UInt8]? {
  var rest = Substring(text.trimmed.lowercased())
  for label in ["sha256", "sha-256"] where rest.hasPrefix(label) {
    rest = rest.dropFirst(label.count)
    break
  }
  rest = rest.drop { $0 == " " }
  if rest.hasPrefix("fingerprint") { rest = rest.dropFirst("fingerprint".count) }
  rest = rest.drop { $0 == ":" || $0 == "=" || $0 == "/" || $0 == " " }
  let digits = rest.filter { !":- \t".contains($0) }
  guard digits.utf8.count == 64 else { return nil }
  return bytes(hexadecimal: digits)
}
