import Audio
import Glibc
import System
import TestSupport
import Testing

@Suite("What goes wrong with a microphone at a sound server", .serialized)
struct PulseFailureTests {
  static let remap =
    "module-remap-source source_name=microphone master=mic_in.monitor source_properties=device.description=Microphone"

  @Test("no server: said at once, with the command that starts one")
  func noServer() async {
    let sound = SoundSystem(AudioSettings(backend: .pulse, server: "unix:/nonexistent/native"))
    let error = await failure { () throws(AudioError) in _ = try await sound.devices() }
    #expect(error?.code == .serverUnavailable)
    #expect(error?.remedy?.contains("systemctl --user start") == true)
    #expect(await sound.choice().name == "none")
  }

  @Test("no such microphone: the ones that there are are named; a monitor is no microphone by default")
  func noDevice() async throws {
    let server = try await TestServer()
    let named = server.system { $0.input = "headset" }
    let lease = try await named.microphone.lease(for: "a test")
    let missing = await failure { () throws(AudioError) in _ = try await lease.capture() }
    #expect(missing?.code == .deviceNotFound)
    #expect(missing?.remedy?.contains("microphone") == true && missing?.remedy?.contains("monitor") == false)
    await lease.release()
    await named.close()
    let bare = try await TestServer([PrivateSoundServer.standardScript[0]])
    let only = bare.system()
    let other = try await only.microphone.lease(for: "a test")
    let none = await failure { () throws(AudioError) in _ = try await other.capture() }
    #expect(none?.code == .deviceNotFound)
    // By its own name a monitor may be listened to.
    let monitor = bare.system { $0.input = "speaker.monitor" }
    let third = try await monitor.microphone.lease(for: "a test")
    let capture = try await third.capture()
    #expect(capture.device.isMonitor)
    await third.release()
    await only.close()
    await monitor.close()
  }

  @Test("a microphone with 44.1 kHz and two channels only is opened as it is, and 16 kHz mono is heard")
  func oddDevice() async throws {
    let server = try await TestServer([
      PrivateSoundServer.standardScript[0],
      "load-module module-null-sink sink_name=mic_in rate=44100 channels=2 format=s32le norewinds=1",
      "load-module \(Self.remap)", "set-default-source microphone",
    ])
    let tone = try await server.playTone(rate: 44_100)
    let sound = server.system()
    let lease = try await sound.microphone.lease(for: "a test")
    let capture = try await lease.capture()
    #expect(capture.format == AudioFormat(.s32le, rate: 44_100, channels: 2))
    #expect(capture.reason.contains("44100 Hz, 2 channels") && capture.reason.contains("converted to 16000 Hz"))
    let listener = Listener(capture)
    try await eventually("half a second of tone") { listener.now.nonZero > 8000 }
    await lease.release()
    tone.end()
    let heard = await listener.whole()
    #expect(abs(PCM(Array(heard.samples.suffix(6000)), rate: 16_000).hertz - 440) < 3)
    #expect(abs(PCM(Array(heard.samples.suffix(6000)), rate: 16_000).amplitude - 0.5) < 0.03)
    await sound.close()
  }

  @Test("a second of zeros: the microphone is opened anew, then its silence is said, and taken back when sound comes")
  func silence() async throws {
    let server = try await TestServer()
    let sound = server.system()
    let lease = try await sound.microphone.lease(for: "a test")
    let listener = Listener(try await lease.capture())
    try await eventually("the silence is said") { listener.now.comings.contains(.silent) }
    #expect(listener.now.comings == [.reopenedBecauseSilent, .silent])
    let tone = try await server.playTone()
    try await eventually("the sound is said") { listener.now.comings.contains(.soundReturned) }
    await lease.release()
    tone.end()
    let heard = await listener.whole()
    #expect(heard.comings == [.reopenedBecauseSilent, .silent, .soundReturned])
    #expect(heard.error == nil)
    // The zeros were delivered too, and positions go on over the second opening.
    #expect(heard.samples.count > 2 * 16_000)
    var position = 0
    for chunk in heard.chunks {
      #expect(chunk.position == position)
      position += chunk.samples.count
    }
    await sound.close()
  }

  @Test("a quiet room is not silence: its microphone is left open, and the first word is whole")
  func quietRoom() async throws {
    let server = try await TestServer()
    let room = try await RoomTone(at: server.address)
    let sound = server.system()
    let lease = try await sound.microphone.lease(for: "a test")
    let listener = Listener(try await lease.capture())
    try await eventually("two seconds of a quiet room") { listener.now.count > 2 * 16_000 }
    await room.end()
    await lease.release()
    let heard = await listener.whole()
    #expect(heard.comings.isEmpty, "\(heard.comings)")
    #expect(heard.nonZero > 16_000)
    #expect(Level(heard.samples).peak < 0.001)
    await sound.close()
  }

  @Test("what a speaker plays is silent while it plays nothing: its monitor is left open, and not a sample is lost")
  func silentMonitor() async throws {
    let server = try await TestServer()
    let sound = server.system { $0.input = "speaker.monitor" }
    let lease = try await sound.microphone.lease(for: "a test")
    let listener = Listener(try await lease.capture())
    try await eventually("three seconds of silence") { listener.now.count > 3 * 16_000 }
    let speaker = try await sound.speaker.lease(for: "a test")
    _ = try await speaker.play(PCM.tone(440, seconds: 1, rate: 48_000))
    try await eventually("the whole tone") { listener.now.nonZero > 15_000 }
    await lease.release()
    await speaker.release()
    let heard = await listener.whole()
    #expect(heard.comings.isEmpty, "\(heard.comings)")
    #expect(heard.error == nil)
    await sound.close()
  }

  @Test("unplugged in mid-capture and plugged in again: what was heard is kept, and the capture goes on")
  func returns() async throws {
    let server = try await TestServer()
    let tone = try await server.playTone()
    let sound = server.system { $0.returnGrace = .seconds(20) }
    let lease = try await sound.microphone.lease(for: "a test")
    let listener = Listener(try await lease.capture())
    try await eventually("tone") { listener.now.nonZero > 8000 }
    try await server.pactl("unload-module", "module-remap-source")
    try await eventually("the loss is said") { !listener.now.comings.isEmpty }
    let before = listener.now.count
    guard case .interrupted(let error) = listener.now.comings[0] else {
      Issue.record("\(listener.now.comings)")
      return
    }
    #expect(error.code == .deviceLost && error.summary.contains("Microphone"))
    // Another microphone does not stand in for it.
    let other = ["load-module", "module-remap-source", "source_name=other", "master=mic_in.monitor"]
    _ = try await output(of: ["pactl", "-s", server.address] + other)
    try await Task.sleep(for: .milliseconds(600))
    #expect(listener.now.count == before)
    _ = try await output(
      of: ["pactl", "-s", server.address, "load-module"] + Self.remap.split(separator: " ").map { "\($0)" })
    try await eventually("it goes on") { listener.now.count > before + 8000 }
    await lease.release()
    tone.end()
    let heard = await listener.whole()
    #expect(heard.error == nil)
    #expect(heard.comings.count == 2)
    guard case .resumed(let gap) = heard.comings.last else {
      Issue.record("\(heard.comings)")
      return
    }
    #expect(gap > .milliseconds(600))
    #expect(abs(PCM(Array(heard.samples.suffix(6000)), rate: 16_000).hertz - 440) < 3)
    await sound.close()
  }

  @Test("unplugged for good: everything heard before is delivered, then the end is said")
  func lost() async throws {
    let server = try await TestServer()
    let tone = try await server.playTone()
    let sound = server.system { $0.returnGrace = .milliseconds(600) }
    let lease = try await sound.microphone.lease(for: "a test")
    let listener = Listener(try await lease.capture())
    try await eventually("tone") { listener.now.nonZero > 8000 }
    try await server.pactl("unload-module", "module-remap-source")
    let heard = await listener.whole()
    tone.end()
    #expect(heard.error?.code == .deviceLost)
    #expect(heard.error?.summary.contains("what was heard until then is kept") == true)
    #expect(heard.nonZero > 8000)
    // The microphone can be taken again, and says what is the matter.
    let again = await failure { () throws(AudioError) in _ = try await lease.capture() }
    #expect(again?.code == .deviceNotFound)
    await lease.release()
    await sound.close()
  }

  @Test("the sound server crashes and is started again in mid-capture: the capture goes on")
  func serverRestart() async throws {
    let server = try await TestServer()
    let tone = try await server.playTone()
    let sound = server.system { $0.returnGrace = .seconds(20) }
    let lease = try await sound.microphone.lease(for: "a test")
    let listener = Listener(try await lease.capture())
    try await eventually("tone") { listener.now.nonZero > 8000 }
    await server.server.crash()
    tone.end()
    try await eventually("the loss is said") { !listener.now.comings.isEmpty }
    let before = listener.now.nonZero
    try await server.server.start()
    let second = try await server.playTone(880)
    try await eventually("it goes on") { listener.now.nonZero > before + 8000 }
    await lease.release()
    second.end()
    let heard = await listener.whole()
    #expect(heard.error == nil)
    #expect(heard.comings.count == 2)
    #expect(abs(PCM(Array(heard.samples.suffix(6000)), rate: 16_000).hertz - 880) < 5)
    await sound.close()
  }

  @Test(
    "a server that hangs: a capture is told and ends, nothing opens or lists for ever, and all is well when it wakes")
  func hangs() async throws {
    let server = try await TestServer()
    let process = try #require(server.server.processID)
    let sound = server.system { $0.returnGrace = .milliseconds(500) }
    let lease = try await sound.microphone.lease(for: "a test")
    let tone = try await server.playTone()
    let listener = Listener(try await lease.capture())
    try await eventually("tone") { listener.now.nonZero > 8000 }
    kill(process, SIGSTOP)
    let heard = await listener.whole()
    #expect(heard.nonZero > 8000)
    #expect(heard.error?.code == .deviceLost)
    guard case .interrupted(let error) = heard.comings.first else {
      Issue.record("\(heard.comings)")
      return
    }
    #expect(error.code == .deviceStuck)
    let listing = await failure { () throws(AudioError) in _ = try await sound.devices() }
    #expect(listing?.code == .deviceStuck)
    await lease.release()
    kill(process, SIGCONT)
    let again = try await sound.microphone.lease(for: "a test")
    let second = Listener(try await again.capture())
    try await eventually("sound again") { !second.now.chunks.isEmpty }
    await again.release()
    tone.end()
    await sound.close()
  }

  @Test("one microphone: the second asker hears who has it, and gets it after the first")
  func oneOwner() async throws {
    let server = try await TestServer()
    let sound = server.system()
    let first = try await sound.microphone.lease(for: "push-to-talk")
    let busy = await failure { () throws(AudioError) in _ = try await sound.microphone.lease(for: "the sound test") }
    #expect(busy?.code == .microphoneBusy)
    #expect(busy?.summary.contains("push-to-talk") == true)
    let listener = Listener(try await first.capture())
    try await eventually("sound") { !listener.now.chunks.isEmpty }
    await first.release()
    #expect(await listener.whole().error == nil)
    var second: MicrophoneLease? = try await sound.microphone.lease(for: "the sound test")
    #expect(await sound.microphone.holder == "the sound test")
    let capture = try await second?.capture()
    // Nobody refers to the lease any more: the microphone closes and is free.
    second = nil
    if let capture {
      for try await _ in capture {}
    }
    try await eventually("it is free") { await sound.microphone.holder == nil }
    try await eventually("nothing records") { try await !server.isRecording }
    await sound.close()
  }

  @Test("released while it is still opening: the capture fails as stopped and the microphone is free and closed")
  func releasedEarly() async throws {
    let server = try await TestServer()
    let sound = server.system()
    for _ in 0..<30 {
      let lease = try await sound.microphone.lease(for: "a test")
      let opening = Task { await failure { () throws(AudioError) in _ = try await lease.capture() } }
      await lease.release()
      let error = await opening.value
      #expect(error == nil || error?.code == .stopped)
      #expect(await sound.microphone.holder == nil)
    }
    try await eventually("nothing records") { try await !server.isRecording }
    await sound.close()
  }
}
