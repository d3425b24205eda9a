import CUInput
import Glibc
import System
import TestSupport
import Testing
import Triggers

extension FirstLane {
  /// Hold-to-talk with keyboards that the kernel takes for real ones.
  @Suite("A talk key of the kernel's")
  struct KeyTests {
    let loop = EventLoop(name: "keys")
    let key: KeyCode

    init() throws { key = try KeyCode("F13") }

    /// What a trigger has told so far.
    final class Heard: Sendable {
      private let signals = Lock<[TriggerSignal]>([])
      var all: [TriggerSignal] { signals.withLock { $0 } }
      func add(_ signal: TriggerSignal) { signals.withLock { $0.append(signal) } }
      /// Waits for exactly these.
      func become(_ wanted: [TriggerSignal]) async -> Bool { await eventually(within: .seconds(30)) { all == wanted } }
    }

    private func withTrigger(
      device: String? = nil, tapThreshold: Duration = .milliseconds(200),
      _ body: (KeyTrigger, Heard) async throws -> Void
    ) async throws {
      let heard = Heard()
      let trigger = KeyTrigger(options: .init(key: key, device: device, tapThreshold: tapThreshold), loop: loop) {
        heard.add($0)
      }
      await trigger.start()
      do { try await body(trigger, heard) } catch {
        await trigger.stop()
        loop.stop()
        throw error
      }
      await trigger.stop()
      loop.stop()
    }

    /// Waits until the trigger watches a keyboard of this name, or no longer does.
    private func watches(_ name: String, _ trigger: KeyTrigger, _ wanted: Bool = true) async -> Bool {
      await eventually(within: .seconds(30)) { await trigger.devices.contains(name) == wanted }
    }

    @Test("held, it talks until it is let go, however often the kernel repeats it; tapped, it latches")
    func holdAndTap() async throws {
      let keyboard = try VirtualKeyboard("Desk keyboard", key: key.rawValue)
      try await withTrigger { trigger, heard in
        #expect(await watches("Desk keyboard", trigger))
        try keyboard.press()
        #expect(await heard.become([.start]))
        // The kernel repeats a held key after a quarter of a second, thirty times a second.
        try await Task.sleep(for: .milliseconds(700))
        try keyboard.release()
        #expect(await heard.become([.start, .stop]))
        try keyboard.press()
        try keyboard.release()
        #expect(await heard.become([.start, .stop, .start]))
        try keyboard.press()
        #expect(await heard.become([.start, .stop, .start, .stop]))
        try keyboard.release()
      }
    }

    @Test("a keyboard that is plugged in later talks too, and one that is pulled out while held has let go")
    func hotPlug() async throws {
      try await withTrigger { trigger, heard in
        let keyboard = try VirtualKeyboard("Late keyboard", key: key.rawValue)
        #expect(await watches("Late keyboard", trigger))
        try keyboard.press()
        #expect(await heard.become([.start]))
        keyboard.unplug()
        #expect(await heard.become([.start, .stop]))
        #expect(await watches("Late keyboard", trigger, false))
        let again = try VirtualKeyboard("Late keyboard", key: key.rawValue)
        #expect(await watches("Late keyboard", trigger))
        try again.press()
        #expect(await heard.become([.start, .stop, .start]))
      }
    }

    @Test("one keyboard of several is chosen by a part of its name, and keyboards without the key are left alone")
    func chosenByName() async throws {
      let left = try VirtualKeyboard("Left keyboard", key: key.rawValue)
      let right = try VirtualKeyboard("Right keyboard", key: key.rawValue)
      let other = try VirtualKeyboard("Right keyboard without it", key: KeyCode("F14").rawValue)
      try await withTrigger(device: "right KEY") { trigger, heard in
        #expect(await watches("Right keyboard", trigger))
        #expect(await trigger.devices == ["Right keyboard"])
        try left.press()
        try other.press()
        try right.press()
        #expect(await heard.become([.start]))
        try left.release()
        try other.release()
        try await Task.sleep(for: .milliseconds(300))
        try right.release()
        #expect(await heard.become([.start, .stop]))
      }
    }

    @Test("a release among events that the kernel dropped is found by the key's state")
    func droppedEvents() async throws {
      let keyboard = try VirtualKeyboard("Busy keyboard", key: key.rawValue, repeats: false)
      try await withTrigger(tapThreshold: .zero) { trigger, heard in
        #expect(await watches("Busy keyboard", trigger))
        try keyboard.press()
        #expect(await heard.become([.start]))
        // While the reader is kept from reading, far more comes than the kernel keeps for it; the odd number leaves the key up.
        let isFlooded = Lock(false)
        loop.perform {
          while !isFlooded.withLock({ $0 }) { usleep(1000) }
        }
        for _ in 0..<300 {
          try keyboard.release()
          try keyboard.press()
        }
        try keyboard.release()
        isFlooded.withLock { $0 = true }
        #expect(await eventually(within: .seconds(30)) { heard.all.last == .stop })
      }
    }
  }
}
