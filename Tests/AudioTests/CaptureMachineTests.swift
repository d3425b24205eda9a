import TestSupport
import Testing

@testable import Audio

@Suite("The life of a capture")
struct CaptureMachineTests {
  private typealias Event = CaptureMachine.Event
  private typealias Action = CaptureMachine.Action

  private static let busy = AudioError(.deviceBusy, "In use by arecord.")
  private static let none = AudioError(.deviceNotFound, "There is no microphone.")
  private static let unplugged = AudioError(.deviceLost, "The microphone went away.")
  private static let refused = AudioError(.serverUnavailable, "No sound server answers.")

  private static let stuck = AudioError(.deviceStuck, "It hangs.")

  /// One step of a story: what happens, at which millisecond, and what has to follow.
  struct Step: Sendable {
    var event: CaptureMachine.Event
    var at: Int
    var actions: [CaptureMachine.Action]
    init(_ event: CaptureMachine.Event, _ at: Int, _ actions: [CaptureMachine.Action]) {
      (self.event, self.at, self.actions) = (event, at, actions)
    }
  }
  struct Story: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var steps: [Step]
  }

  static let opened = [Step(.begin, 0, [.open(1, device: nil)]), Step(.opened(1, device: "usb mic"), 5, [])]

  static let stories: [Story] = [
    Story(
      testDescription: "opened, heard, stopped",
      steps: opened + [
        Step(.sound(1), 20, []), Step(.stop, 900, [.close, .end(nil)]), Step(.sound(1), 901, []), Step(.stop, 902, []),
      ]),
    Story(
      testDescription: "stopped before it was open",
      steps: [
        Step(.begin, 0, [.open(1, device: nil)]), Step(.stop, 1, [.close, .end(nil)]),
        Step(.opened(1, device: "mic"), 2, []),
      ]),
    Story(
      testDescription: "no microphone: told at once",
      steps: [Step(.begin, 0, [.open(1, device: nil)]), Step(.openFailed(1, none), 3, [.close, .end(none)])]),
    Story(
      testDescription: "busy: three tries, then told by whom",
      steps: [
        Step(.begin, 0, [.open(1, device: nil)]), Step(.openFailed(1, busy), 3, [.wake(after: .milliseconds(250))]),
        Step(.woke, 253, [.open(2, device: nil)]), Step(.openFailed(2, busy), 255, [.wake(after: .milliseconds(250))]),
        Step(.woke, 505, [.open(3, device: nil)]), Step(.openFailed(3, busy), 507, [.close, .end(busy)]),
      ]),
    Story(
      testDescription: "busy and then free: nobody notices",
      steps: [
        Step(.begin, 0, [.open(1, device: nil)]), Step(.openFailed(1, busy), 3, [.wake(after: .milliseconds(250))]),
        Step(.woke, 253, [.open(2, device: nil)]), Step(.opened(2, device: "mic"), 260, []),
      ]),
    Story(
      testDescription: "unplugged and plugged in again: asked for by its own name, and goes on",
      steps: opened + [
        Step(
          .lost(1, unplugged), 1000,
          [.close, .notice(.interrupted(unplugged)), .wake(after: .milliseconds(250))]),
        Step(.woke, 1250, [.open(2, device: "usb mic")]),
        Step(.openFailed(2, none), 1251, [.close, .wake(after: .milliseconds(250))]),
        Step(.woke, 1501, [.open(3, device: "usb mic")]),
        Step(.opened(3, device: "usb mic"), 1505, []),
        Step(.samples(3), 1510, [.notice(.resumed(after: .milliseconds(510)))]), Step(.sound(3), 1511, []),
        // What is left of the earlier openings changes nothing any more.
        Step(.lost(1, unplugged), 1511, []), Step(.openFailed(2, none), 1512, []),
      ]),
    Story(
      testDescription: "unplugged for good: ends honestly after the grace",
      steps: opened + [
        Step(
          .lost(1, unplugged), 1000,
          [.close, .notice(.interrupted(unplugged)), .wake(after: .milliseconds(250))]),
        Step(.woke, 1250, [.open(2, device: "usb mic")]),
        Step(.openFailed(2, none), 5999, [.close, .wake(after: .milliseconds(250))]),
        Step(.woke, 6249, [.open(3, device: "usb mic")]),
        Step(
          .openFailed(3, none), 6250,
          [
            .close,
            .end(
              AudioError(
                .deviceLost, "The microphone went away. It did not come back; what was heard until then is kept.")),
          ]),
      ]),
    Story(
      testDescription: "the server is restarted twice",
      steps: opened + [
        Step(.lost(1, refused), 100, [.close, .notice(.interrupted(refused)), .wake(after: .milliseconds(250))]),
        Step(.woke, 350, [.open(2, device: "usb mic")]),
        Step(.opened(2, device: "usb mic"), 355, []),
        Step(.samples(2), 360, [.notice(.resumed(after: .milliseconds(260)))]),
        Step(.lost(2, refused), 400, [.close, .notice(.interrupted(refused)), .wake(after: .milliseconds(250))]),
        Step(.woke, 650, [.open(3, device: "usb mic")]),
        // Lost again before it was open.
        Step(.lost(3, refused), 655, [.close, .wake(after: .milliseconds(250))]),
        Step(.woke, 905, [.open(4, device: "usb mic")]),
        Step(.opened(4, device: "usb mic"), 906, []),
        Step(.samples(4), 910, [.notice(.resumed(after: .milliseconds(510)))]),
      ]),
    Story(
      testDescription: "stuck: it opens again and again and is never heard; that is no return",
      steps: opened + [
        Step(.lost(1, stuck), 2000, [.close, .notice(.interrupted(stuck)), .wake(after: .milliseconds(250))]),
        Step(.woke, 2250, [.open(2, device: "usb mic")]), Step(.opened(2, device: "usb mic"), 2251, []),
        Step(.lost(2, stuck), 4251, [.close, .wake(after: .milliseconds(250))]),
        Step(.woke, 4501, [.open(3, device: "usb mic")]), Step(.opened(3, device: "usb mic"), 4502, []),
        Step(.onlyZeros(3), 4600, []),
        Step(
          .lost(3, stuck), 7000,
          [
            .close,
            .end(
              AudioError(
                .deviceLost, "It hangs. It did not come back; what was heard until then is kept.")),
          ]),
      ]),
    Story(
      testDescription: "stopped while it is away",
      steps: opened + [
        Step(
          .lost(1, unplugged), 1000,
          [.close, .notice(.interrupted(unplugged)), .wake(after: .milliseconds(250))]),
        Step(.stop, 1100, [.close, .end(nil)]), Step(.woke, 1250, []),
      ]),
    Story(
      testDescription: "only zeros: opened anew once, then said, then taken back when sound comes",
      steps: opened + [
        Step(.onlyZeros(1), 1005, [.close, .open(2, device: "usb mic")]),
        Step(.opened(2, device: "usb mic"), 1015, [.notice(.reopenedBecauseSilent)]),
        Step(.onlyZeros(2), 2015, [.notice(.silent)]), Step(.onlyZeros(2), 3015, []),
        Step(.sound(2), 4000, [.notice(.soundReturned)]), Step(.onlyZeros(2), 5000, []),
      ]),
    Story(
      testDescription: "only zeros: opening anew helps",
      steps: opened + [
        Step(.onlyZeros(1), 1005, [.close, .open(2, device: "usb mic")]),
        Step(.opened(2, device: "usb mic"), 1015, [.notice(.reopenedBecauseSilent)]), Step(.sound(2), 1040, []),
        Step(.onlyZeros(2), 2015, []),
      ]),
    Story(
      testDescription: "only zeros, and it does not open a second time: then it is away",
      steps: opened + [
        Step(.onlyZeros(1), 1005, [.close, .open(2, device: "usb mic")]),
        Step(
          .openFailed(2, busy), 1015, [.close, .notice(.interrupted(busy)), .wake(after: .milliseconds(250))]),
        Step(.woke, 1265, [.open(3, device: "usb mic")]),
        Step(.opened(3, device: "usb mic"), 1268, []),
        Step(.samples(3), 1270, [.notice(.resumed(after: .milliseconds(255)))]),
        Step(.onlyZeros(3), 2270, [.notice(.silent)]),
      ]),
  ]

  @Test("stories", arguments: stories)
  func story(_ story: Story) {
    var machine = CaptureMachine()
    for (index, step) in story.steps.enumerated() {
      let actions = machine.on(step.event, at: .milliseconds(step.at))
      #expect(actions == step.actions, "step \(index): \(step.event)")
    }
  }

  @Test("whatever happens in whatever order: it ends once, only after a close, and then does nothing any more")
  func random() {
    let seed = UInt64.random(in: 0...UInt64.max)
    var random = SeededRandom(seed: seed)
    let errors = [Self.busy, Self.none, Self.unplugged, Self.refused]
    for round in 0..<3000 {
      var machine = CaptureMachine()
      var now = 0
      var lastOpening = 0
      var isOpen = false
      var hasEnded = false
      var queue: [CaptureMachine.Event] = [.begin]
      for _ in 0..<40 {
        now += Int.random(in: 0...800, using: &random)
        let number = Int.random(in: max(0, lastOpening - 2)...lastOpening, using: &random)
        let error = errors.randomElement(using: &random)!
        let event =
          queue.isEmpty
          ? [
            Event.opened(number, device: "mic"), .openFailed(number, error), .lost(number, error), .onlyZeros(number),
            .samples(number), .sound(number), .woke, .woke, .stop,
          ].randomElement(using: &random)! : queue.removeFirst()
        // An opening that failed left nothing open.
        if case .openFailed(lastOpening, _) = event { isOpen = false }
        let actions = machine.on(event, at: .milliseconds(now))
        #expect(!hasEnded || actions.isEmpty, "seed \(seed), round \(round)")
        for action in actions {
          switch action {
          case .open(let number, _):
            #expect(number == lastOpening + 1 && !isOpen, "seed \(seed), round \(round)")
            lastOpening = number
            isOpen = true
          case .close: isOpen = false
          case .end:
            #expect(action == actions.last && !isOpen, "seed \(seed), round \(round)")
            hasEnded = true
          case .wake, .notice: break
          }
        }
      }
      let last = machine.on(.stop, at: .milliseconds(now))
      #expect(hasEnded ? last.isEmpty : last == [.close, .end(nil)], "seed \(seed), round \(round)")
    }
  }
}
