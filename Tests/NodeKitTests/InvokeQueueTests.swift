import GatewayProtocol
import TestSupport
import Testing

@testable import NodeKit

/// The queue as a value: what happens at which event, and what always holds.
@Suite("InvokeQueue") struct InvokeQueueTests {
  typealias Action = InvokeQueue.Action
  let small = InvokeQueue.Limits(inFlight: 2, queued: 2, leftBehind: 2, receipts: 2, receiptBytes: 10)
  let done = InvokeOutcome.success(Array("1".utf8))

  private func request(_ id: String = "i", command: String = "a.b", lane: Int = 0, key: String? = nil)
    -> InvokeQueue.Request
  {
    InvokeQueue.Request(
      invokeID: id, command: command, lane: lane,
      key: key.map { InvokeQueue.Key(origin: .gateway("g"), command: command, key: $0) })
  }

  private func code(_ action: Action?) -> String? {
    guard case .answer(_, .failure(let error), _)? = action else { return nil }
    return error["code"]?.string
  }

  @Test("an invoke runs at once and is answered with what it made")
  func runs() {
    var queue = InvokeQueue()
    #expect(queue.on(.arrived(1, request())) == [.start(1, for: 1)])
    #expect(queue.on(.finished(1, done)) == [.answer(1, done, isRepeat: false)])
    #expect(queue.inFlight == 0 && queue.unanswered == 0)
  }

  @Test("what has no slot waits, in order; what has no place in the queue is refused with a time to come back")
  func waits() {
    var queue = InvokeQueue(limits: small)
    for asker: UInt64 in 1...4 { _ = queue.on(.arrived(asker, request())) }
    #expect(queue.inFlight == 2 && queue.queued == 2)
    let refused = queue.on(.arrived(5, request()))
    #expect(refused == [.answer(5, .failure(CommandError.busy.json), isRepeat: false)])
    #expect(CommandError.busy.json["retryAfterMs"]?.int == 1000 && CommandError.busy.json["retryable"]?.bool == true)
    #expect(queue.on(.finished(2, done)) == [.answer(2, done, isRepeat: false), .start(3, for: 3)])
    #expect(queue.on(.finished(1, done)) == [.answer(1, done, isRepeat: false), .start(4, for: 4)])
  }

  @Test("the node's own numbers: 8 run, 64 wait, the next is refused")
  func numbers() {
    var queue = InvokeQueue()
    for asker: UInt64 in 1...72 {
      #expect(queue.on(.arrived(asker, request())) == (asker <= 8 ? [.start(asker, for: asker)] : []))
    }
    #expect(code(queue.on(.arrived(73, request())).first) == "UNAVAILABLE")
  }

  @Test("what ends others waits for no slot, though all are taken; it has a bound of its own, and then waits like all")
  func immediate() {
    var queue = InvokeQueue(limits: .init(inFlight: 2, immediate: 2, queued: 2))
    for asker: UInt64 in 1...4 { _ = queue.on(.arrived(asker, request())) }
    var stop = request("stop")
    stop.isImmediate = true
    #expect(queue.on(.arrived(5, stop)) == [.start(5, for: 5)])
    #expect(queue.on(.arrived(6, stop)) == [.start(6, for: 6)])
    #expect(code(queue.on(.arrived(7, stop)).first) == "UNAVAILABLE")
    #expect(queue.inFlight == 2 && queue.immediate == 2 && queue.queued == 2)
    // Its slot is given to nobody else.
    #expect(queue.on(.finished(5, done)) == [.answer(5, done, isRepeat: false)])
    #expect(queue.on(.finished(1, done)) == [.answer(1, done, isRepeat: false), .start(3, for: 3)])
    #expect(queue.on(.expired(6)) == [.answer(6, .timedOut, isRepeat: false), .abandon(6)])
    #expect(queue.inFlight == 2 && queue.immediate == 0)
  }

  @Test("the same key runs once: the second waits for the first, the third gets its outcome again")
  func idempotence() {
    var queue = InvokeQueue(limits: small)
    _ = queue.on(.arrived(1, request(key: "k")))
    #expect(queue.on(.arrived(2, request(key: "k"))).isEmpty)
    #expect(queue.on(.finished(1, done)) == [.answer(1, done, isRepeat: false), .answer(2, done, isRepeat: true)])
    #expect(queue.on(.arrived(3, request(key: "k"))) == [.answer(3, done, isRepeat: true)])
  }

  @Test("a failure is an outcome and is repeated, unless it asks to be tried again")
  func failures() {
    var queue = InvokeQueue(limits: small)
    let failed = InvokeOutcome.failure(CommandError("X_FAILED", "no").json)
    _ = queue.on(.arrived(1, request(key: "k")))
    _ = queue.on(.finished(1, failed))
    #expect(queue.on(.arrived(2, request(key: "k"))) == [.answer(2, failed, isRepeat: true)])
    _ = queue.on(.arrived(3, request(key: "later")))
    _ = queue.on(.finished(3, .failure(CommandError.unavailable("warming up", retryAfterMs: 10).json)))
    #expect(queue.on(.arrived(4, request(key: "later"))) == [.start(4, for: 4)])
  }

  @Test("a key belongs to its command and to who asks")
  func keyScope() {
    var queue = InvokeQueue()
    _ = queue.on(.arrived(1, request(key: "k")))
    _ = queue.on(.finished(1, done))
    #expect(queue.on(.arrived(2, request(command: "a.c", key: "k"))) == [.start(2, for: 2)])
    let other = InvokeQueue.Request(
      invokeID: "i", command: "a.b", lane: 0, key: InvokeQueue.Key(origin: .gateway("h"), command: "a.b", key: "k"))
    #expect(queue.on(.arrived(3, other)) == [.start(3, for: 3)])
  }

  @Test("large outcomes are not kept: the read runs again; of the small ones, the longest unused goes first")
  func receipts() {
    var queue = InvokeQueue(limits: small)
    func run(_ asker: UInt64, _ key: String, _ bytes: Int = 1) -> [Action] {
      let actions = queue.on(.arrived(asker, request(key: key)))
      if actions == [.start(asker, for: asker)] {
        _ = queue.on(.finished(asker, .success([UInt8](repeating: 48, count: bytes))))
      }
      return actions
    }
    #expect(run(1, "large", 11) == [.start(1, for: 1)])
    #expect(run(2, "large", 11) == [.start(2, for: 2)])
    _ = run(3, "old", 10)
    _ = run(4, "new")
    #expect(code(run(5, "old").first) == nil && queue.inFlight == 0)  // Used again, so "new" is now the older one.
    _ = run(6, "newer")
    #expect(queue.kept == 2)
    #expect(run(7, "new") == [.start(7, for: 7)])
  }

  @Test("256 outcomes of at most 64 KiB are kept")
  func receiptNumbers() {
    var queue = InvokeQueue()
    for asker: UInt64 in 1...300 {
      _ = queue.on(.arrived(asker, request(key: "\(asker)")))
      _ = queue.on(.finished(asker, done))
    }
    #expect(queue.kept == 256)
    #expect(queue.on(.arrived(301, request(key: "44"))) == [.start(301, for: 301)])
    #expect(queue.on(.arrived(302, request(key: "45"))) == [.answer(302, done, isRepeat: true)])
  }

  @Test("at the deadline the asker is answered and the work cancelled; its slot is free, its end is still awaited")
  func deadline() {
    var queue = InvokeQueue(limits: small)
    _ = queue.on(.arrived(1, request(key: "k")))
    #expect(queue.on(.expired(1)) == [.answer(1, .timedOut, isRepeat: false), .abandon(1)])
    #expect(queue.inFlight == 0 && queue.leftBehind(of: 0) == 1)
    #expect(queue.on(.expired(1)).isEmpty)
    // It was run once, and this was its outcome.
    #expect(queue.on(.arrived(2, request(key: "k"))) == [.answer(2, .timedOut, isRepeat: true)])
    #expect(queue.on(.finished(1, done)).isEmpty)
    #expect(queue.leftBehind(of: 0) == 0)
  }

  @Test("who joined a work has a deadline of its own; the work goes on for who still waits")
  func sharedDeadlines() {
    var queue = InvokeQueue(limits: small)
    _ = queue.on(.arrived(1, request(key: "k")))
    _ = queue.on(.arrived(2, request("j", key: "k")))
    #expect(queue.on(.expired(1)) == [.answer(1, .timedOut, isRepeat: false)])
    #expect(queue.on(.finished(1, done)) == [.answer(2, done, isRepeat: false)])
    #expect(queue.on(.arrived(3, request(key: "k"))) == [.answer(3, done, isRepeat: true)])
  }

  @Test("when the first asker goes before its turn, the work runs for the second")
  func firstGoes() {
    var queue = InvokeQueue(limits: small)
    for asker: UInt64 in 1...2 { _ = queue.on(.arrived(asker, request())) }
    for asker: UInt64 in 3...4 { _ = queue.on(.arrived(asker, request(key: "k"))) }
    #expect(queue.on(.expired(3)) == [.answer(3, .timedOut, isRepeat: false)])
    #expect(queue.on(.finished(1, done)) == [.answer(1, done, isRepeat: false), .start(3, for: 4)])
    #expect(queue.on(.finished(3, done)) == [.answer(4, done, isRepeat: false)])
  }

  @Test("what expires or is cancelled before it ran leaves nothing: the same key may run later")
  func expiresInQueue() {
    var queue = InvokeQueue(limits: small)
    for asker: UInt64 in 1...2 { _ = queue.on(.arrived(asker, request())) }
    _ = queue.on(.arrived(3, request("j", key: "k")))
    #expect(queue.on(.cancelled(invokeID: "j")) == [.answer(3, .cancelled, isRepeat: false)])
    _ = queue.on(.finished(1, done))
    #expect(queue.on(.arrived(4, request(key: "k"))) == [.start(4, for: 4)])
  }

  @Test("a cancel reaches every asker with that id; unknown ids are ignored")
  func cancel() {
    var queue = InvokeQueue(limits: small)
    _ = queue.on(.arrived(1, request("x")))
    _ = queue.on(.arrived(2, request("x")))
    #expect(queue.on(.cancelled(invokeID: "y")).isEmpty)
    #expect(
      queue.on(.cancelled(invokeID: "x")) == [
        .answer(1, .cancelled, isRepeat: false), .abandon(1), .answer(2, .cancelled, isRepeat: false), .abandon(2),
      ])
  }

  @Test("a module that ignores its cancels is not started again and again, and holds up no other")
  func wedged() {
    var queue = InvokeQueue(limits: small)
    for asker: UInt64 in 1...2 {
      _ = queue.on(.arrived(asker, request(lane: 7)))
      _ = queue.on(.expired(asker))
    }
    #expect(queue.leftBehind(of: 7) == 2)
    let refused = queue.on(.arrived(3, request(lane: 7)))
    #expect(code(refused.first) == "UNAVAILABLE" && refused.count == 1)
    #expect(queue.on(.arrived(4, request(lane: 8))) == [.start(4, for: 4)])
    _ = queue.on(.finished(1, done))
    #expect(queue.on(.arrived(5, request(lane: 7))) == [.start(5, for: 5)])
  }

  @Test("what waited for a module that has wedged meanwhile is refused, not started")
  func wedgedWhileWaiting() {
    var queue = InvokeQueue(limits: small)
    for asker: UInt64 in 1...4 { _ = queue.on(.arrived(asker, request())) }
    _ = queue.on(.expired(1))  // Starts 3 in its place.
    let actions = queue.on(.expired(2))
    #expect(actions.count == 3 && actions.first == .answer(2, .timedOut, isRepeat: false))
    #expect(code(actions.last) == "UNAVAILABLE" && queue.queued == 0)
  }

  @Test("a switch turned off ends what is under it, and nothing else")
  func revoked() {
    var queue = InvokeQueue(limits: small)
    let refusal = CommandError("CAMERA_DISABLED", "off")
    for asker: UInt64 in 1...3 {
      _ = queue.on(.arrived(asker, request(command: asker == 2 ? "device.info" : "camera.snap")))
    }
    #expect(
      queue.on(.revoked(["camera.snap": refusal])) == [
        .answer(1, .failure(refusal.json), isRepeat: false), .abandon(1),
        .answer(3, .failure(refusal.json), isRepeat: false),
      ])
    #expect(queue.inFlight == 1 && queue.unanswered == 1)
  }

  @Test("at the end everybody is answered, and who comes later too")
  func stops() {
    var queue = InvokeQueue(limits: small)
    for asker: UInt64 in 1...3 { _ = queue.on(.arrived(asker, request())) }
    let actions = queue.on(.stopped)
    #expect(actions.filter { if case .answer = $0 { true } else { false } }.count == 3)
    #expect(!actions.contains { if case .start = $0 { true } else { false } })
    #expect(code(queue.on(.arrived(4, request())).first) == "UNAVAILABLE")
  }

  @Test("whatever happens in whatever order: each is answered once, and the bounds hold", arguments: 0..<20)
  func randomWalk(_: Int) {
    var random = SeededRandom()
    let seed = random.seed
    let limits = InvokeQueue.Limits(inFlight: 3, queued: 4, leftBehind: 2, receipts: 5, receiptBytes: 10)
    var queue = InvokeQueue(limits: limits)
    var asked: UInt64 = 0
    var answered: Set<UInt64> = []
    var running: Set<UInt64> = []
    var abandoned: Set<UInt64> = []
    var startedKeys: [String: Int] = [:]
    var keys: [UInt64: String] = [:]
    func perform(_ actions: [Action]) {
      for action in actions {
        switch action {
        case .start(let work, let asker):
          #expect(!answered.contains(asker), "for nobody, seed \(seed)")
          #expect(running.insert(work).inserted, "started twice, seed \(seed)")
        case .abandon(let work):
          #expect(running.contains(work), "seed \(seed)")
          #expect(abandoned.insert(work).inserted, "seed \(seed)")
        case .answer(let asker, _, _): #expect(answered.insert(asker).inserted, "answered twice, seed \(seed)")
        }
      }
    }
    for _ in 0..<500 {
      let anyone = UInt64.random(in: 0...asked, using: &random)
      switch Int.random(in: 0..<10, using: &random) {
      case 0...4:
        asked += 1
        let key: String? = Bool.random(using: &random) ? "k\(Int.random(in: 0..<6, using: &random))" : nil
        keys[asked] = key
        let actions = queue.on(
          .arrived(asked, request("i\(asked % 20)", lane: Int.random(in: 0..<3, using: &random), key: key)))
        if let key, actions.contains(.start(asked, for: asked)) { startedKeys[key, default: 0] += 1 }
        perform(actions)
      case 5, 6:
        guard let work = running.randomElement(using: &random) else { continue }
        running.remove(work)
        abandoned.remove(work)
        let size = Int.random(in: 0...12, using: &random)
        perform(queue.on(.finished(work, .success([UInt8](repeating: 48, count: size)))))
      case 7: perform(queue.on(.expired(anyone)))
      case 8: perform(queue.on(.withdrawn(anyone)))
      default: perform(queue.on(.cancelled(invokeID: "i\(anyone % 20)")))
      }
      #expect(
        queue.inFlight == running.subtracting(abandoned).count && queue.inFlight <= limits.inFlight, "seed \(seed)")
      #expect(queue.queued <= limits.queued && queue.kept <= limits.receipts, "seed \(seed)")
      #expect(queue.unanswered == Int(asked) - answered.count, "seed \(seed)")
      #expect(queue.queued == 0 || queue.inFlight == limits.inFlight, "a slot stays empty, seed \(seed)")
      // A lane can have its limit of left behind, and those of its slots that were given up at once.
      for lane in 0..<3 { #expect(queue.leftBehind(of: lane) < limits.leftBehind + limits.inFlight, "seed \(seed)") }
    }
    perform(queue.on(.stopped))
    #expect(answered.count == Int(asked), "somebody waits for ever, seed \(seed)")
    for work in running { perform(queue.on(.finished(work, .success(nil)))) }
    for lane in 0..<3 { #expect(queue.leftBehind(of: lane) == 0, "seed \(seed)") }
  }
}
