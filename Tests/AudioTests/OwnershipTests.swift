import TestSupport
import Testing

@testable import Audio

@Suite("Who holds a device")
struct OwnershipTests {
  private func give(_ ownership: inout Ownership, _ ticket: Ownership.Ticket) -> Bool { ownership.release(ticket) }

  @Test("one holder at a time; the second asker hears who it is, and gets it after a release")
  func story() {
    var ownership = Ownership()
    #expect(ownership.holder == nil)
    guard case .granted(let first) = ownership.take("push-to-talk") else {
      Issue.record("a free device was refused")
      return
    }
    let second = ownership.take("the sound test")
    #expect(second == .heldBy("push-to-talk"))
    #expect(ownership.isHeld(by: first))
    #expect(give(&ownership, first) == true)
    guard case .granted(let third) = ownership.take("the sound test") else {
      Issue.record("a free device was refused")
      return
    }
    // The first holder's release comes once more, late: it frees nothing.
    #expect(give(&ownership, first) == false)
    #expect(ownership.holder == "the sound test")
    #expect(!ownership.isHeld(by: first))
    #expect(give(&ownership, third) == true)
    #expect(give(&ownership, third) == false)
    #expect(ownership.holder == nil)
  }

  @Test("over random takings and releases there is never more than one holder, and every ticket is new")
  func random() {
    let seed = UInt64.random(in: 0...UInt64.max)
    var random = SeededRandom(seed: seed)
    var ownership = Ownership()
    var tickets: [Ownership.Ticket] = []
    var current: Ownership.Ticket?
    for step in 0..<10_000 {
      if Bool.random(using: &random) {
        switch ownership.take("\(step)") {
        case .granted(let ticket):
          #expect(current == nil && !tickets.contains(ticket), "seed \(seed)")
          if tickets.count < 200 { tickets.append(ticket) }
          current = ticket
        case .heldBy: #expect(current != nil, "seed \(seed)")
        }
      } else if let ticket = tickets.randomElement(using: &random) {
        let wasHeld = ownership.release(ticket)
        #expect(wasHeld == (ticket == current), "seed \(seed)")
        if ticket == current { current = nil }
      }
      // A ticket that was not kept can't be released: give it back.
      if let ticket = current, !tickets.contains(ticket) {
        #expect(give(&ownership, ticket) == true)
        current = nil
      }
      #expect((ownership.holder == nil) == (current == nil), "seed \(seed)")
    }
  }
}
