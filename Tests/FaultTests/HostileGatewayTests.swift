import DevGateway
import GatewayClient
import GatewayProtocol
import LinkTestSupport
import System
import TestSupport
import Testing

@Suite("A gateway that sends what it should not")
struct HostileGatewayTests {
  static let garbage = [
    "", " ", "{", "null", "[]", "42", "\"event\"", "{}", #"{"type":"event"}"#, #"{"type":"res","id":"r-1"}"#,
    #"{"type":"res","id":"r-999","ok":true}"#, #"{"type":"event","event":""}"#,
    #"{"type":"event","event":"x","seq":-5}"#,
    #"{"type":"event","event":"tick","seq":9223372036854775807}"#, #"{"type":"req","id":"1","method":"node.invoke"}"#,
    #"{"type":"event","event":"node.invoke.request","payload":{"id":"x"}}"#,
    #"{"type":"event","event":"node.invoke.request","payload":"{not json"}"#,
    #"{"type":"event","event":"node.invoke.cancel","payload":{"invokeId":7}}"#,
    #"{"type":"event","event":"connect.challenge","payload":{"nonce":"again","ts":1}}"#,
    #"{"type":"event","event":"of.next.year","payload":{"a":[1,2,{"b":null}]},"novelty":true}"#,
    String(repeating: "[", count: 100_000),
    #"{"type":"event","event":"x","payload":\#(String(repeating: "{\"a\":", count: 5000))1"#,
    #"{"type":"event","event":"\ud800","payload":"\udfff"}"#,
  ]

  @Test("is borne: garbage is ignored, and the link stays")
  func ignored() async throws {
    try await withHouse { gateway, desk in
      let link = try await desk.connect(gateway.offer())
      try await eventually("both sockets are up") { await link.status().isComplete }
      let before = await link.status()
      var random = SeededRandom()
      print("seed \(random.seed)")
      for text in Self.garbage.shuffled(using: &random).prefix(14) { await gateway.sendText(text, to: desk.id) }
      try await gateway.expectAnswer(desk)
      _ = try await link.request("node.list", [:], as: .operator)
      #expect(await link.status() == before)
    }
  }

  @Test("is borne: numbers of events that no counter reaches, in any order")
  func numbers() async throws {
    try await withHouse { gateway, desk in
      let link = try await desk.connect(gateway.offer())
      try await eventually("both sockets are up") { await link.status().isComplete }
      for number in [-5, Int64.max, 3, .min, .max, .max, 0, 1 << 53, 1] {
        await gateway.sendText(#"{"type":"event","event":"tick","seq":\#(number)}"#, to: desk.id)
      }
      try await gateway.expectAnswer(desk)
    }
  }

  @Test("too often is left, and tried anew")
  func tooMuchGarbage() async throws {
    try await withHouse { gateway, desk in
      let link = try await desk.connect(gateway.offer(), timings: Desk.unhurried)
      let history = History(link)
      try await eventually("both sockets are up") { await link.status().isComplete }
      for _ in 0..<40 { await gateway.sendText("garbage", to: desk.id, role: .node) }
      try await eventually("the node has left") { history.wasDown(because: "no frames") }
      try await gateway.expectAnswer(desk)
    }
  }

  /// Frames that break RFC 6455, and bytes that are no frames at all.
  static let frames: [[UInt8]] = [
    [0xF1, 0x00], [0x83, 0x00], [0x8B, 0x00], [0x81, 0x80, 1, 2, 3, 4], [0x00, 0x01, 0x41], [0x09, 0x00],
    [0x89, 126, 0, 126],
    [0x81, 127, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF],
    [0x81, 127, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00],
    [0x81, 0x02, 0xC3, 0x28], [0x88, 0x01, 0x03], [0x88, 0x02, 0x03, 0xEC], [0x88, 0x04, 0x03, 0xE8, 0xC3, 0x28],
    [0x01, 0x01, 0x41, 0x81, 0x01, 0x42], Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8),
    [UInt8](repeating: 0xFF, count: 4096),
  ]

  @Test("breaks the framing and is left at once", arguments: frames)
  func brokenFraming(bytes: [UInt8]) async throws {
    try await withHouse { gateway, desk in
      let link = try await desk.connect(gateway.offer(), timings: Desk.unhurried)
      let history = History(link)
      try await eventually("both sockets are up") { await link.status().isComplete }
      await gateway.sendRaw(bytes, to: desk.id)
      try await eventually("it was left") { history.wasDown(because: "") }
      try await gateway.expectAnswer(desk)
      try await eventually("both sockets are up again") { await link.status().isComplete }
    }
  }

  @Test("25 MiB are taken, more is not")
  func largeMessages() async throws {
    try await withHouse { gateway, desk in
      let link = try await desk.connect(gateway.offer(), timings: Desk.unhurried)
      let history = History(link)
      try await eventually("both sockets are up") { await link.status().isComplete }
      let events = link.events(of: .node)
      await gateway.sendLarge(ProtocolLimits.payload, to: desk.id, role: .node)
      for await event in events where event.name == "large" {
        #expect(event.payload?.string.map { $0.utf8.count > ProtocolLimits.payload - 100 } == true)
        break
      }
      #expect(!history.wasDown(because: ""))
      await gateway.sendLarge(ProtocolLimits.payload + 1, to: desk.id, role: .node)
      try await eventually("it was left") { history.wasDown(because: "26214400") }
      try await gateway.expectAnswer(desk)
    }
  }

  @Test("takes only 64 KiB before hello-ok: a surface that is too long is not sent, and a shorter one lets the node in")
  func longConnect() async throws {
    try await withHouse { gateway, desk in
      await desk.setSurface(NodeSurface(caps: ["device"], commands: (0..<5000).map { "device.command-\($0)" }))
      let link = try await desk.connect(gateway.offer(), timings: Desk.unhurried)
      let history = History(link)
      try await eventually("it is told") { history.wasDown(because: "65536") }
      await desk.setSurface(NodeSurface(caps: ["device"], commands: ["device.info"]))
      await link.surfaceChanged()
      try await eventually("both sockets are up") { await link.status().isComplete }
    }
  }

  @Test("floods the link with events, and nothing grows or is held up")
  func flood() async throws {
    try await withHouse { gateway, desk in
      let link = try await desk.connect(gateway.offer())
      try await eventually("both sockets are up") { await link.status().isComplete }
      let unread = link.events(of: .node)
      for number in 0..<3000 {
        await gateway.send(event: "flood", payload: .int(Int64(number)), to: desk.id, role: .node)
      }
      try await gateway.expectAnswer(desk)
      var iterator = unread.makeAsyncIterator()
      // The oldest have gone; 256 are kept.
      let first = try #require(await iterator.next()?.payload?.int)
      #expect(first >= 3000 - 256 - 8)
    }
  }

  @Test("answers connect with nonsense and is tried again")
  func nonsenseHello() async throws {
    try await withHouse { gateway, desk in
      for code in ["", "💥", String(repeating: "x", count: 10_000)] {
        await gateway.refuseConnects(
          Refusal(WireError(code: code, message: code, details: ["code": .string(code), "retryable": "perhaps"])),
          times: 2)
      }
      let link = try await desk.connect(gateway.offer())
      try await eventually("both sockets are up") { await link.status().isComplete }
    }
  }
}
