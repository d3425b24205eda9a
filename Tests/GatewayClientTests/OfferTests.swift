import Crypto
import GatewayProtocol
import System
import Testing
import Transport

@testable import GatewayClient

@Suite("An offer of a gateway")
struct OfferTests {
  static let now: Int64 = 1_767_225_600_000
  static let token = String(repeating: "q", count: 43)

  static func code(_ json: JSON) -> String { Base64.encodeURL(json.encoded()) }
  static func parse(_ text: String) throws(LinkError) -> GatewayOffer { try GatewayOffer(parsing: text, nowMs: now) }

  static let payload: JSON = [
    "url": "wss://gw.example.lan:18789", "urls": ["wss://gw.example.lan:18789", "ws://192.168.7.20:18789"],
    "bootstrapToken": .string(token), "expiresAtMs": .int(now + 1000),
  ]

  /// Every way one payload may come in (protocol §7.1–§7.2).
  @Test(
    "is understood in every form",
    arguments: [
      code(payload), "oc-pair://" + code(payload), "OC-PAIR://" + code(payload), payload.text,
      "  \n" + payload.text + "\n",
      "Scan or paste this:\n\n  \(code(payload))\n\nIt is good for 10 minutes.", "Your code is '\(code(payload))'.",
      "code=\(code(payload))=", "--\(code(payload))--", "oc-pair://\(code(payload)) ",
      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa \(code(payload))", Base64.encode(payload.encoded()),
    ])
  func forms(text: String) throws {
    let offer = try Self.parse(text)
    #expect(offer.primary == Endpoint(isTLS: true, host: "gw.example.lan", port: 18789))
    #expect(offer.routes == [offer.primary, Endpoint(isTLS: false, host: "192.168.7.20", port: 18789)])
    #expect(offer.bootstrapToken == Self.token && offer.token == nil && offer.password == nil)
    #expect(offer.expiresAtMs == Self.now + 1000)
  }

  @Test("as a bare URL has the usual ports and keeps its context path")
  func urls() throws {
    let cases: [(String, Endpoint)] = [
      ("wss://gw.example.com", Endpoint(isTLS: true, host: "gw.example.com", port: 443)),
      ("https://gw.example.com/", Endpoint(isTLS: true, host: "gw.example.com", port: 443)),
      ("wss://gw.example.com:18789/claw", Endpoint(isTLS: true, host: "gw.example.com", port: 18789, path: "/claw")),
      ("ws://127.0.0.1", Endpoint(isTLS: false, host: "127.0.0.1", port: 18789)),
      ("http://localhost:8080", Endpoint(isTLS: false, host: "localhost", port: 8080)),
      ("ws://[::1]:18789", Endpoint(isTLS: false, host: "::1", port: 18789)),
      ("WS://Pi.local", Endpoint(isTLS: false, host: "pi.local", port: 18789)),
    ]
    for (text, endpoint) in cases {
      let offer = try Self.parse(text)
      #expect(offer.primary.description.lowercased() == endpoint.description, "\(text)")
      #expect(offer.routes == [offer.primary])
    }
  }

  @Test("as a link carries host, port, TLS, token, password and name")
  func links() throws {
    let plain = try Self.parse("openclaw://gateway?host=192.168.1.4&port=1234&tls=0&token=a%2Bb+c&password=p%20w")
    #expect(plain.primary == Endpoint(isTLS: false, host: "192.168.1.4", port: 1234))
    #expect(plain.token == "a+b+c" && plain.password == "p w")
    let secure = try Self.parse("openclaw://gateway?host=gw.example.com")
    #expect(secure.primary == Endpoint(isTLS: true, host: "gw.example.com", port: 443))
    let added = try Self.parse("openclaw://gateway/add?url=wss%3A%2F%2Fgw.example.com%3A8443&name=My+Gateway%21")
    #expect(added.primary == Endpoint(isTLS: true, host: "gw.example.com", port: 8443) && added.name == "My Gateway!")
  }

  @Test("in the older form means TLS unless it says otherwise")
  func legacy() throws {
    let offer = try Self.parse(#"{"host":"gw.example.com","token":"t","tlsFingerprint":"\#(Self.colons)"}"#)
    #expect(offer.primary == Endpoint(isTLS: true, host: "gw.example.com", port: 443) && offer.token == "t")
    #expect(offer.fingerprint == sha256([1]))
    let plain = try Self.parse(#"{"host":"fd00::2","port":18790,"tls":false,"password":"p"}"#)
    #expect(plain.primary == Endpoint(isTLS: false, host: "fd00::2", port: 18790) && plain.password == "p")
  }

  static let colons = sha256([1]).map { hexadecimal([$0]).uppercased() }.joined(separator: ":")

  @Test("takes a fingerprint in any spelling")
  func fingerprints() throws {
    let hex = hexadecimal(sha256([1]))
    for spelling in [hex, hex.uppercased(), Self.colons, "sha256:" + hex, "SHA-256 " + Self.colons, " " + hex] {
      let offer = try Self.parse(
        JSON.object(["url": "wss://gw.example.com", "tlsFingerprint": .string(spelling)]).text)
      #expect(offer.fingerprint == sha256([1]), "\(spelling)")
    }
  }

  @Test(
    "that is wrong is refused with a reason",
    arguments: [
      ("", LinkError.Code.offerInvalid), ("hello", .offerInvalid), ("{", .offerInvalid), ("[]", .offerInvalid),
      ("{}", .offerInvalid),
      (#"{"url":7}"#, .offerInvalid), (#"{"url":"ftp://x"}"#, .offerInvalid), (#"{"url":"wss://"}"#, .offerInvalid),
      ("wss://user:pw@gw.example.com", .offerInvalid), ("wss://gw.example.com/?token=x", .offerInvalid),
      ("wss://gw.example.com/#x", .offerInvalid), ("wss://gw.example.com:0", .offerInvalid),
      ("wss://gw.example.com:70000", .offerInvalid), ("ws://gw.example.com", .plaintextRefused),
      ("ws://8.8.8.8:18789", .plaintextRefused), ("ws://100.64.1.1", .plaintextRefused),
      ("http://gw", .plaintextRefused),
      ("openclaw://gateway?host=gw.example.com&tls=0", .plaintextRefused), ("openclaw://gateway", .offerInvalid),
      ("openclaw://gateway?host=a&port=x", .offerInvalid), ("openclaw://gateway?host=a&port=0", .offerInvalid),
      ("openclaw://gateway?host=%zz", .offerInvalid), ("openclaw://agent?message=hi", .offerInvalid),
      ("openclaw://two\nlines", .offerInvalid), ("openclaw://gateway?host=a&port=1%0A2", .offerInvalid),
      (#"{"url":"wss://a","expiresAtMs":1}"#, .offerExpired),
      (#"{"url":"wss://a","expiresAtMs":-9223372036854775808}"#, .offerExpired),
      (#"{"url":"wss://a","expiresAtMs":"soon"}"#, .offerInvalid),
      (#"{"url":"wss://a","tlsFingerprint":"beef"}"#, .offerInvalid),
      (#"{"url":"wss://a","tlsFingerprint":7}"#, .offerInvalid),
      (#"{"url":"ws://127.0.0.1","tlsFingerprint":"\#(colons)"}"#, .offerInvalid),
      (#"{"url":"wss://a","urls":[]}"#, .offerInvalid), (#"{"url":"wss://a","urls":"wss://a"}"#, .offerInvalid),
      (#"{"url":"wss://a","urls":["1","2","3","4","5","6","7","8","9"]}"#, .offerInvalid),
      (#"{"host":"a/b"}"#, .offerInvalid), (#"{"host":"a","port":65536}"#, .offerInvalid),
      (#"{"host":"u@h"}"#, .offerInvalid),
      (code(["url": "wss://a", "expiresAtMs": 5]), .offerExpired),
      (String(repeating: "x", count: 70_000), .offerInvalid),
      ("https://gw.example.com/j/abc123", .joinLink), ("http://127.0.0.1:18789/claw/j/Ab-9_z", .joinLink),
    ])
  func refused(text: String, code: LinkError.Code) {
    let error = #expect(throws: LinkError.self) { try Self.parse(text) }
    #expect(error?.code == code, "\(text.prefix(80)): \(error?.description ?? "accepted")")
    #expect(error?.summary.contains(where: \.isNewline) == false)
  }

  @Test("that also names a route in the clear outside the local network loses that route only")
  func publicRoute() throws {
    let offer = try Self.parse(
      #"{"url":"wss://gw.example.com","urls":["ws://gw.example.com:80","wss://gw.example.com"]}"#)
    #expect(offer.routes == [offer.primary])
    let unlisted = try Self.parse(#"{"url":"wss://gw.example.com","urls":["wss://b.example.com"]}"#)
    #expect(unlisted.routes.map(\.host) == ["gw.example.com", "b.example.com"])
  }

  @Test("never tells a secret in its refusal")
  func noSecrets() {
    let texts = [
      "wss://user:hunter2@gw.example.com", "wss://gw.example.com?token=hunter2",
      "openclaw://gateway?host=a/b&token=hunter2",
      #"{"url":"wss://u:hunter2@gw","token":"hunter2"}"#, "openclaw://gateway?host=x&token=hunter2%zz",
    ]
    for text in texts {
      let error = #expect(throws: LinkError.self) { try Self.parse(text) }
      #expect(error?.description.contains("hunter2") == false, "\(error?.description ?? "")")
    }
  }

  @Test("join links: https anywhere, http on this machine, nothing else")
  func joinLinks() {
    #expect(JoinLink("https://gw.example.com/j/abc")?.endpoint.path == "/j/abc")
    #expect(JoinLink("https://gw.example.com/claw/j/abc")?.endpoint.path == "/claw/j/abc")
    #expect(JoinLink("http://localhost:1/j/abc") != nil)
    for text in [
      "http://10.0.0.1/j/abc", "wss://gw.example.com/j/abc", "https://gw.example.com/j/",
      "https://gw.example.com/j/a/b",
      "https://gw.example.com/jj/abc", "https://gw.example.com/j/a%2Fb",
    ] { #expect(JoinLink(text) == nil, "\(text)") }
  }

  @Test("any bytes end in an offer or an error")
  func total() {
    var random = seeded()
    let seeds = [
      Array(Self.payload.text.utf8), Array(Self.code(Self.payload).utf8),
      Array("openclaw://gateway?host=a&port=1&tls=0".utf8),
      Array("wss://gw.example.com:1/x".utf8),
    ]
    for round in 0..<4000 {
      var bytes = seeds[round % seeds.count]
      for _ in 0..<Int.random(in: 1...6, using: &random) where !bytes.isEmpty {
        let at = Int.random(in: 0..<bytes.count, using: &random)
        switch Int.random(in: 0..<4, using: &random) {
        case 0: bytes[at] = UInt8.random(in: 0...255, using: &random)
        case 1: bytes.remove(at: at)
        case 2: bytes.insert(UInt8.random(in: 32...126, using: &random), at: at)
        default: bytes = Array(bytes[at...] + bytes[..<at])
        }
      }
      guard let offer = try? Self.parse(String(decoding: bytes, as: UTF8.self)) else { continue }
      #expect(offer.routes.contains(offer.primary) && offer.routes.count <= 9)
      #expect(offer.routes.allSatisfy(PlaintextPolicy.allows))
      #expect(offer.fingerprint.map { $0.count == 32 && offer.primary.isTLS } ?? true)
    }
  }

  @Test("plaintext is allowed on this machine and its local network only")
  func plaintext() {
    let allowed = [
      "localhost", "LOCALHOST", "127.0.0.1", "127.9.9.9", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1", "::ffff:10.0.0.1",
      "pi.local",
      "a.b.local", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.0.1", "169.254.1.1", "fc00::1", "fdab::9",
      "fe80::1",
      "febf::1", "fe80::1%eth0", "::ffff:7f00:1",
    ]
    let refused = [
      "gw", "local", "example.com", "local.example.com", "pi.local.example.com", "8.8.8.8", "172.15.0.1", "172.32.0.1",
      "192.169.0.1",
      "100.64.0.1", "box.ts.net", "2001:db8::1", "fec0::1", "::2", "::ffff:8.8.8.8", "127.0.0.1.example.com",
      "010.0.0.1", "0x7f.0.0.1",
      "127.1", "1e0.0.0.1", "", "10.0.0.1::", ":::", "1:2:3:4:5:6:7:8:9", "fe80", "localhost.example.com",
      "127.0.0.256", "⒑0.0.1",
    ]
    for host in allowed { #expect(PlaintextPolicy.allows(host: host), "\(host)") }
    for host in refused { #expect(!PlaintextPolicy.allows(host: host), "\(host)") }
    #expect(PlaintextPolicy.allows(Endpoint(isTLS: true, host: "example.com", port: 443)))
  }
}
