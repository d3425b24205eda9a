import EncoderProtocol
import TestSupport
import Testing

/// What the two programs say to each other, in bytes.
@Suite("The encoder's protocol") struct ProtocolTests {
  private let order = ClipOrder(
    width: 640, height: 360, milliframes: 29_970, milliseconds: 3000, maxBytes: 18_874_368, sampleRate: 48_000,
    channels: 2, prefersHardware: true)

  private func read(_ bytes: [UInt8], longest: Int = 1 << 20, step: Int = .max) throws -> [EncoderMessage] {
    var reader = EncoderMessageReader(longest: longest)
    var messages: [EncoderMessage] = []
    var start = 0
    while start < bytes.count {
      let end = min(bytes.count, start + min(step, bytes.count))
      messages += try bytes[start..<end].withUnsafeBytes { try reader.feed($0) }
      start = end
    }
    #expect(reader.isBetweenMessages)
    return messages
  }

  @Test("requests and replies come out as they went in, however the stream is cut", arguments: [1, 2, 3, 7, 64, .max])
  func roundTrip(step: Int) throws {
    let requests: [EncoderRequest] = [
      .begin(order), .frame(.i420, at: 0, [1, 2, 3]), .frame(.jpeg, at: 33_000_000, [0xFF, 0xD8]),
      .sound(at: 5, [9, 8]), .finish,
    ]
    let bytes = requests.flatMap(\.message.wire)
    #expect(try read(bytes, step: step).map { try EncoderRequest($0) } == requests)
    let replies: [EncoderReply] = [
      .ready(encoder: "libx264"), .movie([0, 1, 2]), .failed(.tooLarge, "too large"),
    ]
    #expect(try read(replies.flatMap(\.message.wire), step: step).map { try EncoderReply($0) } == replies)
  }

  @Test("what is announced longer than allowed is refused before it comes")
  func tooLong() {
    let head: [UInt8] = [UInt8(ascii: "f"), 0xFF, 0xFF, 0xFF, 0xFF]
    #expect(throws: EncoderProtocolError.self) { try read(head) }
  }

  @Test(
    "orders that make no sense are refused by name",
    arguments: [
      (\ClipOrder.width, 641), (\.width, 0), (\.height, 10_000), (\.milliframes, 0), (\.milliseconds, 0),
      (\.milliseconds, 600_001), (\.maxBytes, 0), (\.sampleRate, 100), (\.channels, 3),
    ] as [(WritableKeyPath<ClipOrder, Int> & Sendable, Int)])
  func badOrder(field: WritableKeyPath<ClipOrder, Int> & Sendable, value: Int) {
    var order = order
    order[keyPath: field] = value
    #expect(throws: EncoderProtocolError.self) { try EncoderRequest(EncoderRequest.begin(order).message) }
  }

  @Test(
    "cut or foreign messages are refused",
    arguments: [
      EncoderMessage(kind: UInt8(ascii: "b"), payload: [1, 2, 3]), EncoderMessage(kind: UInt8(ascii: "f"), payload: []),
      EncoderMessage(kind: UInt8(ascii: "f"), payload: [0, 0, 0, 0, 0, 0, 0, 0, 7]),
      EncoderMessage(kind: UInt8(ascii: "s"), payload: [UInt8](repeating: 0xFF, count: 12)),
      EncoderMessage(kind: UInt8(ascii: "e"), payload: [0]), EncoderMessage(kind: 0, payload: []),
    ])
  func badMessage(message: EncoderMessage) {
    #expect(throws: EncoderProtocolError.self) { try EncoderRequest(message) }
  }

  @Test("a budget keeps picture, sound and tables under the limit; a limit too small for any picture has none")
  func budget() throws {
    var random = SeededRandom()
    print("seed \(random.seed)")
    for _ in 0..<2000 {
      let order = ClipOrder(
        width: 16 + 2 * random.below(2000), height: 16 + 2 * random.below(2000),
        milliframes: 1000 + random.below(59_000), milliseconds: 250 + random.below(59_750),
        maxBytes: 1 + random.below(20_000_000), sampleRate: random.below(2) * 48_000, channels: 1 + random.below(2))
      guard let budget = BitBudget(order) else { continue }
      let seconds = max(0.25, Double(order.milliseconds) / 1000)
      let bytes = (Double(budget.video) * (seconds + BitBudget.reserve) + Double(budget.audio) * seconds) / 8
      #expect(bytes < Double(order.maxBytes))
    }
    var tiny = order
    tiny.maxBytes = 5000
    #expect(BitBudget(tiny) == nil)
    #expect(try #require(BitBudget(order)).video > 1_000_000)
  }
}
