import Testing

@testable import Transport

@Suite("The head of an HTTP message")
struct HTTPHeadTests {
  func parse(_ text: String, _ kind: HTTPHead.Kind = .response) throws(HTTPHead.Malformed) -> HTTPHead {
    try HTTPHead(Array(text.utf8)[...], kind)
  }

  @Test("a response has a status, a phrase and headers with names in small letters")
  func response() throws {
    let head = try parse(
      "HTTP/1.1 101 Switching Protocols\r\nUpgrade:websocket\r\nConnection: \tkeep-alive, Upgrade \r\n"
        + "X-A: 1\r\nx-a: 2\r\n\r\n")
    #expect(head.start == .response(status: 101, reason: "Switching Protocols"))
    #expect(head.headers == ["upgrade": "websocket", "connection": "keep-alive, Upgrade", "x-a": "1, 2"])
    #expect(head.lists("upgrade", in: "connection") && !head.lists("grade", in: "connection"))
  }

  @Test("a phrase may be missing")
  func noPhrase() throws {
    #expect(try parse("HTTP/1.1 200\r\n\r\n").start == .response(status: 200, reason: ""))
    #expect(try parse("HTTP/1.0 200 \r\n\r\n").start == .response(status: 200, reason: ""))
  }

  @Test("a request has a method and a target")
  func request() throws {
    let head = try parse("GET /gateway HTTP/1.1\r\nHost: a\r\n\r\n", .request)
    #expect(head.start == .request(method: "GET", target: "/gateway"))
  }

  @Test(
    "what could be read in two ways is refused",
    arguments: [
      "", "\r\n", "\r\n\r\n", "HTTP/1.1\r\n\r\n", "HTTP/1.1 20 OK\r\n\r\n", "HTTP/1.1 2000 OK\r\n\r\n",
      "HTTP/1.1 +20 OK\r\n\r\n", "HTTP/1.1 099 OK\r\n\r\n", "HTTP/2 200 OK\r\n\r\n", "http/1.1 200 OK\r\n\r\n",
      "SSH-2.0-OpenSSH\r\n\r\n", "HTTP/1.1 200 OK\n\n", "HTTP/1.1 200 OK\r\nA: 1\n\r\n",
      "HTTP/1.1 200 OK\r\nA: 1\r\r\n\r\n",
      "HTTP/1.1 200 OK\r\nA : 1\r\n\r\n", "HTTP/1.1 200 OK\r\n: 1\r\n\r\n", "HTTP/1.1 200 OK\r\nA\r\n\r\n",
      "HTTP/1.1 200 OK\r\nA: 1\r\n folded\r\n\r\n", "HTTP/1.1 200 OK\r\nA: \0\r\n\r\n", "HTTP/1.1 200 OK\r\nA: 1\r\n",
      "HTTP/1.1 200 OK\r\n\r\nmore",
    ])
  func refused(text: String) {
    #expect(throws: HTTPHead.Malformed.self) { try parse(text) }
  }

  @Test(
    "a request that is not of version 1.1 or not in three parts is refused",
    arguments: [
      "GET / HTTP/1.0", "GET /", "GET  / HTTP/1.1", "GET / a HTTP/1.1", " GET / HTTP/1.1", "GET / HTTP/1.1 ",
      "G(T / HTTP/1.1",
    ])
  func refusedRequest(line: String) {
    #expect(throws: HTTPHead.Malformed.self) { try parse(line + "\r\nHost: a\r\n\r\n", .request) }
  }

  @Test("however a head is cut, it is read once, and what follows it is kept")
  func cuts() throws {
    let head = Array("HTTP/1.1 200 OK\r\nA: 1\r\n\r\n".utf8)
    let bytes = head + Array("rest\r\n\r\n".utf8)
    for cut in 0...bytes.count {
      var reader = HTTPHeadReader(.response)
      var found = try bytes[..<cut].withUnsafeBytes { try reader.feed($0) }
      if let found {
        #expect(found.head.status == 200 && found.rest == Array(bytes[head.count..<cut]), "cut at \(cut)")
      } else {
        found = try bytes[cut...].withUnsafeBytes { try reader.feed($0) }
        #expect(found?.head.status == 200 && found?.rest == Array("rest\r\n\r\n".utf8), "cut at \(cut)")
      }
    }
  }

  @Test("a head over 16 KiB or with over 100 headers is refused for its size")
  func tooLong() {
    var reader = HTTPHeadReader(.request)
    let start = Array("GET / HTTP/1.1\r\nA: ".utf8)
    let bytes = start + [UInt8](repeating: 97, count: 17_000)
    #expect(throws: HTTPHead.Malformed.self) {
      try bytes.withUnsafeBytes { try reader.feed($0) }
    }
    let many = "GET / HTTP/1.1\r\n" + String(repeating: "A: 1\r\n", count: 101) + "\r\n"
    do throws(HTTPHead.Malformed) {
      _ = try parse(many, .request)
      Issue.record("it was read")
    } catch { #expect(error.isTooLong) }
  }

  @Test("another protocol's greeting is not awaited to its end")
  func otherProtocol() {
    var reader = HTTPHeadReader(.response)
    #expect(throws: HTTPHead.Malformed.self) {
      try Array("220 mail.example".utf8).withUnsafeBytes { try reader.feed($0) }
    }
  }
}
