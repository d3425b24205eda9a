import Testing

@testable import Triggers

@Suite("The talk key")
struct TalkKeyTests {
  private let press = TalkKey.Event.down(at: .seconds(10))
  private func release(after ms: Int) -> TalkKey.Event { .up(at: .seconds(10) + .milliseconds(ms)) }
  private func key(_ events: TalkKey.Event...) -> TalkKey {
    var key = TalkKey()
    for event in events { _ = key.on(event) }
    return key
  }

  @Test("held, it talks while it is down")
  func hold() {
    var key = TalkKey()
    #expect(key.on(press) == [.start, .startStuckTimer(TalkKey.stuckLimit)])
    #expect(key.on(release(after: 200)) == [.stopStuckTimer, .stop])
    #expect(key.phase == .up)
  }

  @Test("tapped, it latches, and the next press ends it")
  func tap() {
    var key = key(press)
    #expect(key.on(release(after: 199)) == [.stopStuckTimer])
    #expect(key.on(.down(at: .seconds(20))) == [.stop])
    #expect(key.on(.up(at: .seconds(21))) == [])
    #expect(key == TalkKey())
  }

  @Test("without a threshold every press is a hold")
  func noThreshold() {
    var key = TalkKey(tapThreshold: .zero)
    _ = key.on(press)
    #expect(key.on(release(after: 0)) == [.stopStuckTimer, .stop])
  }

  @Test("an unplugged keyboard is a release, held or latched")
  func lost() {
    var held = key(press)
    #expect(held.on(.lost) == [.stopStuckTimer, .stop])
    var latched = key(press, release(after: 50))
    #expect(latched.on(.lost) == [.stop])
    var idle = TalkKey()
    #expect(idle.on(.lost) == [])
  }

  @Test("a release that was missed is found by the key's state")
  func missedRelease() {
    var key = key(press)
    #expect(key.on(.state(isDown: false)) == [.stopStuckTimer, .stop])
    #expect(key.phase == .up)
  }

  @Test("a stuck key ends the capture once and starts none until it was up")
  func stuck() {
    var key = key(press)
    #expect(key.on(.state(isDown: true)) == [.stopStuckTimer, .stop])
    #expect(key.on(.down(at: .seconds(400))) == [])
    #expect(key.on(.up(at: .seconds(500))) == [])
    #expect(key.on(.down(at: .seconds(501))) == [.start, .startStuckTimer(TalkKey.stuckLimit)])
  }

  @Test("a second press while held, or a release while up, changes nothing")
  func strays() {
    var held = key(press)
    #expect(held.on(.down(at: .seconds(11))) == [])
    var up = TalkKey()
    #expect(up.on(release(after: 1)) == [])
    #expect(up.on(.state(isDown: true)) == [])
  }

  @Test(
    "keys are named as the kernel names them, in any case, or numbered",
    arguments: [
      ("KEY_F13", 183), ("f13", 183), ("RightCtrl", 97), ("183", 183), ("key_pause", 119),
    ] as [(String, UInt16)])
  func names(text: String, code: UInt16) throws { #expect(try KeyCode(text).rawValue == code) }

  @Test("what is no key is refused", arguments: ["", "KEY_", "NOPE", "0", "99999", "-1"])
  func badNames(text: String) { #expect(throws: TriggerError.self) { try KeyCode(text) } }
}
