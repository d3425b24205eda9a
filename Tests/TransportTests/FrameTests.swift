import TestSupport
import Testing

@testable import Transport

@Suite("Frames")
struct FrameTests {
  typealias Event = FrameDecoder.Event
  typealias Violation = FrameDecoder.Violation

  /// What a decoder makes of bytes that come in the given pieces.
  func decode(
    _ bytes: [UInt8], masked: Bool = false, maxMessage: Int = 1 << 20, cuts: [Int] = []
  ) -> (events: [Event], violation: Violation?) {
    var decoder = FrameDecoder(expectsMask: masked, maxMessage: maxMessage)
    var events: [Event] = []
    var begin = 0
    for end in cuts + [bytes.count] {
      do {
        try bytes[begin..<end].withUnsafeBytes { piece in try decoder.feed(piece) { events.append($0) } }
      } catch {
        return (events, error as? Violation)
      }
      begin = end
    }
    return (events, nil)
  }

  func frame(_ opcode: Opcode, _ payload: [UInt8], isFinal: Bool = true, key: UInt32? = nil) -> [UInt8] {
    var out: [UInt8] = []
    FrameEncoder(masks: key != nil).append(opcode, payload, isFinal: isFinal, key: key, to: &out)
    return out
  }

  // MARK: The examples of RFC 6455 §5.7

  @Test("the examples of RFC 6455 are written and read as they stand there")
  func examples() {
    let hello = Array("Hello".utf8)
    #expect(frame(.text, hello) == [0x81, 0x05, 0x48, 0x65, 0x6C, 0x6C, 0x6F])
    let masked = frame(.text, hello, key: 0x3D21_FA37)
    #expect(masked == [0x81, 0x85, 0x37, 0xFA, 0x21, 0x3D, 0x7F, 0x9F, 0x4D, 0x51, 0x58])
    #expect(decode(masked, masked: true).events == [.message(Message(bytes: hello, isText: true))])
    let fragments: [UInt8] = [0x01, 0x03, 0x48, 0x65, 0x6C, 0x80, 0x02, 0x6C, 0x6F]
    #expect(decode(fragments).events == [.message(Message(bytes: hello, isText: true))])
    #expect(frame(.ping, hello) == [0x89, 0x05, 0x48, 0x65, 0x6C, 0x6C, 0x6F])
    #expect(frame(.binary, [UInt8](repeating: 0, count: 256)).prefix(4) == [0x82, 0x7E, 0x01, 0x00])
    #expect(
      frame(.binary, [UInt8](repeating: 0, count: 65_536)).prefix(10) == [0x82, 0x7F, 0, 0, 0, 0, 0, 1, 0, 0])
  }

  @Test("the acceptance of a key is that of the RFC's example")
  func acceptance() {
    #expect(WebSocket.acceptance(of: "dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
  }

  // MARK: Properties

  /// A stream of frames with its events, long enough to have every kind of header.
  func randomStream(_ random: inout SeededRandom, masked: Bool) -> (bytes: [UInt8], events: [Event]) {
    var bytes: [UInt8] = []
    var events: [Event] = []
    let encoder = FrameEncoder(masks: masked)
    for _ in 0..<Int.random(in: 1...8, using: &random) {
      let isText = Bool.random(using: &random)
      let text = String(repeating: "aä€😀", count: [0, 1, 12, 13, 300, 7000].randomElement(using: &random)!)
      let payload = Array(text.utf8)
      let parts = Int.random(in: 1...4, using: &random)
      var begin = 0
      for part in 1...parts {
        let end = part == parts ? payload.count : Int.random(in: begin...payload.count, using: &random)
        encoder.append(
          part == 1 ? (isText ? .text : .binary) : .continuation, Array(payload[begin..<end]), isFinal: part == parts,
          key: .random(in: 0 ... .max, using: &random), to: &bytes)
        begin = end
        if part < parts && Bool.random(using: &random) {
          encoder.append(.ping, [UInt8(part)], key: .random(in: 0 ... .max, using: &random), to: &bytes)
          events.append(.ping([UInt8(part)]))
        }
      }
      events.append(.message(Message(bytes: payload, isText: isText)))
    }
    return (bytes, events)
  }

  @Test("however the bytes are cut, the events are the same", arguments: [false, true])
  func cuts(masked: Bool) {
    let seed = UInt64.random(in: 0 ... .max)
    var random = SeededRandom(seed: seed)
    for _ in 0..<40 {
      let (bytes, events) = randomStream(&random, masked: masked)
      #expect(decode(bytes, masked: masked).events == events, "seed \(seed)")
      let cuts = (0..<Int.random(in: 1...60, using: &random)).map { _ in Int.random(in: 0...bytes.count, using: &random)
      }
      let cut = decode(bytes, masked: masked, cuts: cuts.sorted())
      #expect(cut.events == events && cut.violation == nil, "seed \(seed)")
    }
  }

  @Test("byte by byte is a cut like any other")
  func byteByByte() {
    var random = SeededRandom(seed: 7)
    let (bytes, events) = randomStream(&random, masked: true)
    #expect(decode(bytes, masked: true, cuts: Array(0..<bytes.count)).events == events)
  }

  @Test("garbage gives events or a violation, the same ones for every cut")
  func garbage() {
    let seed = UInt64.random(in: 0 ... .max)
    var random = SeededRandom(seed: seed)
    for _ in 0..<2000 {
      var bytes = (0..<Int.random(in: 0...40, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) }
      // Most headers of pure noise end at the first byte; these get further.
      if !bytes.isEmpty && Bool.random(using: &random) { bytes[0] &= 0x8F }
      for masked in [false, true] {
        let whole = decode(bytes, masked: masked, maxMessage: 64)
        let pieces = decode(bytes, masked: masked, maxMessage: 64, cuts: Array(0..<bytes.count))
        #expect(whole == pieces, "seed \(seed), bytes \(bytes)")
      }
    }
  }

  @Test("masking twice gives the bytes back, from any phase")
  func maskingIsItsOwnInverse() {
    let original = (0..<100).map { UInt8($0) }
    for phase in 0..<4 {
      var bytes = original
      bytes.withUnsafeMutableBytes { Mask.apply(0xDEAD_BEEF, to: $0, phase: phase) }
      let key: [UInt8] = [0xEF, 0xBE, 0xAD, 0xDE]
      #expect(bytes == original.enumerated().map { $1 ^ key[($0 + phase) % 4] })
      bytes.withUnsafeMutableBytes { Mask.apply(0xDEAD_BEEF, to: $0, phase: phase) }
      #expect(bytes == original)
    }
  }

  // MARK: What is refused

  @Test(
    "a peer that breaks the rules gets the code for it",
    arguments: [
      ("a reserved bit", [0xC1, 0x00], 1002),
      ("an unknown data opcode", [0x83, 0x00], 1002),
      ("an unknown control opcode", [0x8B, 0x00], 1002),
      ("a masked frame from a server", [0x81, 0x80, 0, 0, 0, 0], 1002),
      ("a fragmented ping", [0x09, 0x00], 1002),
      ("a ping of 126 bytes", [0x89, 0x7E, 0, 126], 1002),
      ("a continuation of nothing", [0x80, 0x00], 1002),
      ("a message inside another", [0x01, 0x01, 97, 0x81, 0x01, 98], 1002),
      ("a close frame of one byte", [0x88, 0x01, 3], 1002),
      ("a close frame with 1005", [0x88, 0x02, 0x03, 0xED], 1002),
      ("a close frame with 1006", [0x88, 0x02, 0x03, 0xEE], 1002),
      ("a close frame with 999", [0x88, 0x02, 0x03, 0xE7], 1002),
      ("a close frame with 5000", [0x88, 0x02, 0x13, 0x88], 1002),
      ("a close reason that is no UTF-8", [0x88, 0x03, 0x03, 0xE8, 0xFF], 1007),
      ("a text that is no UTF-8", [0x81, 0x01, 0xFF], 1007),
      ("a text that ends inside a character", [0x81, 0x02, 0xE2, 0x82], 1007),
      ("a surrogate", [0x81, 0x03, 0xED, 0xA0, 0x80], 1007),
      ("a length of 2^63 and more", [0x82, 0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF], 1002),
      ("a length of 2^62", [0x82, 0x7F, 0x40, 0, 0, 0, 0, 0, 0, 0], 1009),
    ] as [(String, [UInt8], UInt16)])
  func violations(what: String, bytes: [UInt8], code: UInt16) {
    let (events, violation) = decode(bytes)
    #expect(events == [] && violation?.code == code)
  }

  @Test("an unmasked frame from a client is refused")
  func clientsMask() {
    #expect(decode([0x81, 0x00], masked: true).violation?.code == 1002)
  }

  @Test("a message of exactly the limit is taken, one byte more is not, in one frame or in many")
  func limit() {
    let exact = [UInt8](repeating: 1, count: 100)
    #expect(decode(frame(.binary, exact), maxMessage: 100).events.count == 1)
    #expect(decode(frame(.binary, exact + [1]), maxMessage: 100).violation?.code == 1009)
    let parts = frame(.binary, exact, isFinal: false)
    #expect(decode(parts + frame(.continuation, []), maxMessage: 100).events.count == 1)
    #expect(decode(parts + frame(.continuation, [1]), maxMessage: 100).violation?.code == 1009)
  }

  @Test("a limit that is lowered inside a message holds for the rest of it")
  func loweredLimit() throws {
    var decoder = FrameDecoder(expectsMask: false, maxMessage: 100)
    func feed(_ bytes: [UInt8]) throws { try bytes.withUnsafeBytes { piece in try decoder.feed(piece) { _ in } } }
    try feed(frame(.binary, [1, 2, 3], isFinal: false))
    decoder.maxMessage = 3
    try feed(frame(.continuation, [], isFinal: false))
    #expect(throws: Violation(code: 1009, what: "a message is over 3 bytes")) { try feed(frame(.continuation, [4])) }
  }

  // MARK: Close frames

  @Test("a close frame carries code and reason, one without a code reads as 1005")
  func closing() {
    var bytes: [UInt8] = []
    FrameEncoder(masks: false).appendClose(4001, "gateway auth changed", to: &bytes)
    #expect(decode(bytes).events == [.close(code: 4001, reason: "gateway auth changed")])
    #expect(decode([0x88, 0x00]).events == [.close(code: 1005, reason: "")])
  }

  @Test("a reason that is too long is cut at a character")
  func longReason() {
    var bytes: [UInt8] = []
    FrameEncoder(masks: false).appendClose(1008, String(repeating: "€", count: 60), to: &bytes)
    #expect(decode(bytes).events == [.close(code: 1008, reason: String(repeating: "€", count: 41))])
  }

  @Test("codes that never stand on the wire are not sent", arguments: [0, 999, 1004, 1005, 1006, 1015, 2999, 5000])
  func unsendable(code: UInt16) {
    var bytes: [UInt8] = []
    FrameEncoder(masks: false).appendClose(code, "why", to: &bytes)
    #expect(bytes == [0x88, 0x00])
  }
}
