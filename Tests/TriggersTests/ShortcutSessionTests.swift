import TestSupport
import Testing

@testable import Triggers

@Suite("The talk shortcut's session, as a value")
struct ShortcutSessionTests {
  private typealias Event = ShortcutSession.Event
  private static let error = TriggerError(.unavailable, "no")
  private func session(_ events: Event...) -> ShortcutSession {
    var session = ShortcutSession()
    for event in events { _ = session.on(event) }
    return session
  }
  private var bound: ShortcutSession {
    session(.begin, .owner(":1.2"), .opened(attempt: 1, session: "/s", trigger: "F9"))
  }

  @Test("from the first question to a press and a release")
  func story() {
    var session = ShortcutSession()
    #expect(session.on(.begin) == [.open(attempt: 1)])
    // The news of the portal that the question itself has started is no reason to ask again.
    #expect(session.on(.owner(":1.2")) == [])
    #expect(session.on(.opened(attempt: 1, session: "/s", trigger: "F9")) == [])
    #expect(session.phase == .bound(session: "/s", trigger: "F9"))
    #expect(session.on(.pressed(session: "/s")) == [.press])
    #expect(session.on(.released(session: "/s")) == [.release])
    #expect(session.on(.changed(session: "/s", trigger: "F8")) == [])
    #expect(session.phase == .bound(session: "/s", trigger: "F8"))
    #expect(session.on(.stop) == [.lose, .close(session: "/s")])
    #expect(session.on(.begin) == [] && session.phase == .stopped)
  }

  @Test("presses of another session, and of none, are nothing")
  func strangers() {
    var session = bound
    for event in [Event.pressed(session: "/x"), .released(session: "/x"), .closed(session: "/x")] {
      #expect(session.on(event) == [])
    }
    #expect(session == bound)
    var opening = self.session(.begin)
    #expect(opening.on(.pressed(session: "/s")) == [])
  }

  @Test("a portal that goes ends what its key began, and one that comes is asked anew")
  func restart() {
    var session = bound
    #expect(session.on(.owner(nil)) == [.lose])
    #expect(session.phase == .absent)
    #expect(session.on(.pressed(session: "/s")) == [])
    #expect(session.on(.owner(":1.9")) == [.open(attempt: 2)])
    // The answer of the one before it comes late.
    #expect(session.on(.opened(attempt: 1, session: "/s", trigger: nil)) == [])
    #expect(session.on(.owner(nil)) == [.giveUp])
    #expect(session.on(.owner(":1.11")) == [.open(attempt: 3)])
    // Replaced without a moment in between.
    #expect(session.on(.opened(attempt: 3, session: "/t", trigger: nil)) == [])
    #expect(session.on(.owner(":1.12")) == [.lose, .open(attempt: 4)])
  }

  @Test("a refusal is asked again after a while, a final one only when the portal comes anew")
  func refusals() {
    var session = session(.begin)
    let pauses: [Duration] = (1...8).map { attempt in
      let actions = session.on(.refused(attempt: attempt, Self.error, isFinal: false))
      guard case .retry(attempt, let after)? = actions.first.map(Retry.init) ?? nil else { return .zero }
      #expect(session.on(.retry(attempt: attempt)) == [.open(attempt: attempt + 1)])
      return after
    }
    #expect(pauses == [5, 10, 20, 40, 80, 160, 300, 300].map { .seconds($0) })
    #expect(session.on(.refused(attempt: 9, Self.error, isFinal: true)) == [])
    #expect(session.on(.retry(attempt: 9)) == [])
    #expect(session.on(.owner(":1.3")) == [.open(attempt: 10)])
    #expect(session.on(.retry(attempt: 9)) == [])
  }

  private enum Retry {
    case retry(Int, Duration)
    init?(_ action: ShortcutSession.Action) {
      guard case .retry(let attempt, let after) = action else { return nil }
      self = .retry(attempt, after)
    }
  }

  @Test("a session that the portal ends is a release, and is opened again")
  func closed() {
    var session = bound
    #expect(session.on(.closed(session: "/s")) == [.lose, .retry(attempt: 1, after: .seconds(5))])
    #expect(session.on(.retry(attempt: 1)) == [.open(attempt: 2)])
  }

  @Test(
    "whatever comes in whatever order: one opening at a time, no press outside a session, every session ends in a loss or a close"
  )
  func random() {
    var random = SeededRandom()
    for _ in 0..<2000 {
      var session = ShortcutSession()
      var opened = 0
      var isBound = false
      for _ in 0..<30 {
        let attempt = max(0, opened - random.below(2))
        let name = "/\(random.below(2))"
        let events: [Event] = [
          .begin, .owner(nil), .owner(":1.\(random.below(3))"), .opened(attempt: attempt, session: name, trigger: nil),
          .refused(attempt: attempt, Self.error, isFinal: random.below(2) == 0), .pressed(session: name),
          .released(session: name), .closed(session: name), .retry(attempt: attempt), .stop,
        ]
        // A stop is rare.
        let event = events[random.below(random.below(10) == 0 ? events.count : events.count - 1)]
        let actions = session.on(event)
        for action in actions {
          switch action {
          case .open(let number):
            #expect(number == opened + 1, "seed \(random.seed)")
            opened = number
          case .press, .release: #expect(isBound, "seed \(random.seed)")
          case .lose, .close, .giveUp, .retry: break
          }
        }
        let wasBound = isBound
        if case .bound = session.phase { isBound = true } else { isBound = false }
        if wasBound && !isBound { #expect(actions.contains(.lose), "seed \(random.seed)") }
        if actions.contains(.lose) { #expect(wasBound, "seed \(random.seed)") }
      }
    }
  }
}
