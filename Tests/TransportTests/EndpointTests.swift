import Testing

@testable import Transport

@Suite("Where a socket is")
struct EndpointTests {
  @Test(
    "a URL is read to one form",
    arguments: [
      ("ws://gw.lan", "ws://gw.lan:18789"),
      ("wss://gw.lan", "wss://gw.lan:443"),
      ("http://gw.lan:80/", "ws://gw.lan:80"),
      ("HTTPS://GW.Example.com/open/Claw/", "wss://gw.example.com:443/open/Claw/"),
      ("ws://127.0.0.1:1", "ws://127.0.0.1:1"),
      ("wss://[::1]:65535/x", "wss://[::1]:65535/x"),
      ("wss://[0:0:0:0:0:0:0:1]", "wss://[::1]:443"),
      ("ws://[fe80::1%25eth0]:9", "ws://[fe80::1%eth0]:9"),
      ("ws://raspberry_pi.local.", "ws://raspberry_pi.local.:18789"),
      ("ws://a/%2e%2e/b", "ws://a:18789/%2e%2e/b"),
    ])
  func read(url: String, form: String) {
    #expect(Endpoint(url: url)?.description == form)
  }

  @Test(
    "what is no such URL is refused",
    arguments: [
      "", "gw.lan", "gw.lan:18789", "ftp://a", "ws:/a", "ws://", "ws:///path", "ws://:80", "ws://a:", "ws://a:0",
      "ws://a:65536",
      "ws://a:-1", "ws://a:+1", "ws://a:8 0", "ws://user@a", "ws://user:word@a", "ws://a/?q", "ws://a?q", "ws://a/#f",
      "ws://a#f",
      "ws://a b", "ws://a/b c", "ws://a/\r\nHost: b", "ws://ä.example", "ws://a/ä", "ws://[::1", "ws://[::1]x",
      "ws://::1",
      "ws://[1.2.3.4]", "ws://[::g]", "ws://[fe80::1%25]", "ws://1.2.3", "ws://1.2.3.256", "ws://0x7f000001.1",
      "ws://a..b",
      "ws://-a", "ws://a-", " ws://a", "ws://a%00b", "ws://1.2.3.4\0.5", "ws://[::1\0]", "ws://a\0b",
    ])
  func refused(url: String) {
    #expect(Endpoint(url: url) == nil)
  }

  @Test(
    "very long URLs are refused",
    arguments: ["ws://" + String(repeating: "a.", count: 200) + "b", "ws://a/" + String(repeating: "b", count: 5000)])
  func long(url: String) {
    #expect(Endpoint(url: url) == nil)
  }
}

@Suite("Fingerprints as people type them")
struct FingerprintTests {
  static let digits = "41fde2be299dd34f000102030405060708090a0b0c0d0e0f1011121314151617"
  static let pairs = stride(from: 0, to: 64, by: 2).map { index in
    let start = digits.index(digits.startIndex, offsetBy: index)
    return String(digits[start..<digits.index(start, offsetBy: 2)])
  }

  @Test(
    "all the usual forms are the same 32 bytes",
    arguments: [
      digits, digits.uppercased(), pairs.joined(separator: ":"), pairs.joined(separator: ":").uppercased(),
      pairs.joined(separator: " "), "sha256:" + digits, "SHA-256: " + pairs.joined(separator: ":"),
      "sha256 Fingerprint=" + pairs.joined(separator: ":").uppercased(), "  sha256/" + digits + "\n",
    ])
  func forms(text: String) {
    let bytes = fingerprint(parsing: text)
    #expect(bytes?.count == 32 && bytes?.prefix(4) == [0x41, 0xFD, 0xE2, 0xBE] && bytes?.last == 0x17)
  }

  @Test(
    "anything else is none",
    arguments: [
      "", "sha256:", digits + "00", String(digits.dropLast()), String(digits.dropLast()) + "g", "sha1:" + digits,
      "sha512:" + digits,
    ])
  func others(text: String) {
    #expect(fingerprint(parsing: text) == nil)
  }
}
