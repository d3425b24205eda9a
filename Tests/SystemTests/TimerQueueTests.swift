import Testing

@testable import System

@Suite("A queue of timers")
struct TimerQueueTests {
  @Test("it agrees with a sorted list, whatever is added, cancelled and fired")
  func model() {
    let seed = UInt64.random(in: 0 ... .max)
    var random = SystemTestGenerator(seed: seed)
    for _ in 0..<30 {
      var queue = TimerQueue()
      var model: [UInt64: UInt64] = [:]
      var fired: [UInt64] = []
      var now: UInt64 = 0
      var nextID: UInt64 = 0
      for _ in 0..<400 {
        switch UInt8.random(in: 0..<10, using: &random) {
        case 0..<5:
          nextID += 1
          let id = nextID
          let due = now + UInt64.random(in: 0..<50, using: &random)
          queue.add(id, due: due) {}
          model[id] = due
        case 5..<8:
          if let id = model.keys.sorted().randomElement(using: &random) {
            queue.cancel(id)
            model[id] = nil
          }
        default:
          now += UInt64.random(in: 0..<20, using: &random)
          let due = queue.due(at: now)
          let expected = model.filter { $0.value <= now }.sorted { ($0.value, $0.key) < ($1.value, $1.key) }.map(\.key)
          #expect(due == expected, "seed \(seed)")
          for id in due {
            #expect(queue.take(id) != nil)
            fired.append(id)
            model[id] = nil
          }
        }
        #expect(queue.nextDue == model.values.min() && queue.count == model.count, "seed \(seed)")
      }
      for id in fired { #expect(queue.take(id) == nil) }
    }
  }

  @Test("timers that are made and cancelled all the time don't pile up")
  func churn() {
    var queue = TimerQueue()
    for id in UInt64(1)...100_000 {
      queue.add(id, due: 1_000_000 + id) {}
      queue.cancel(id)
    }
    #expect(queue.count == 0 && queue.stored <= 128)
  }
}

/// A generator whose seed stands in the test's output when it fails (splitmix64).
struct SystemTestGenerator: RandomNumberGenerator {
  private var state: UInt64
  init(seed: UInt64) { state = seed }
  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var value = state
    value = (value ^ value >> 30) &* 0xBF58_476D_1CE4_E5B9
    value = (value ^ value >> 27) &* 0x94D0_49BB_1331_11EB
    return value ^ value >> 31
  }
}
