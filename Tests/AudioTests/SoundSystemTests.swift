import Audio
import System
import TestSupport
import Testing

@Suite("Sound on this machine", .serialized)
struct SoundSystemTests {
  @Test("auto: a running server comes first and says where it is")
  func autoPrefersServer() async throws {
    let server = try await TestServer()
    let sound = server.system { $0.backend = .auto }
    let choice = await sound.choice()
    #expect(choice.name == "pulse")
    #expect(choice.reason.contains(server.folder.path) && choice.reason.contains("a running sound server comes first"))
    #expect(choice.passedOver.isEmpty)
    await sound.close()
  }

  @Test("auto without a server: ALSA, and the reason why not the server")
  func autoFallsBack() async {
    // A device that was named makes ALSA a choice on a machine without a card.
    let settings = AudioSettings(input: "null", server: "unix:/nonexistent/native")
    let choice = await SoundSystem(settings).choice()
    #expect(choice.name == "alsa")
    #expect(choice.reason.contains("no sound server answers"))
    #expect(choice.passedOver.map(\.name) == ["pulse"])
    #expect(choice.passedOver.first?.error.code == .serverUnavailable)
  }

  @Test("a server that dies before the microphone is asked for: the other way is tried, and the first reason is told")
  func otherWay() async throws {
    let server = try await TestServer()
    let sound = server.system { $0.backend = .auto }
    #expect(await sound.choice().name == "pulse")
    await server.server.crash()
    let lease = try await sound.microphone.lease(for: "a test")
    let error = await failure { () throws(AudioError) in _ = try await lease.capture() }
    #expect(error != nil)
    await lease.release()
    await sound.close()
  }

  @Test("the list names every device once, with its default, its own format and whether it is muted")
  func list() async throws {
    let server = try await TestServer()
    let sound = server.system()
    try await server.pactl("set-source-mute", "microphone", "1")
    let devices = try await sound.devices()
    let microphone = devices.first { $0.name == "microphone" }
    #expect(microphone?.label == "Microphone")
    #expect(microphone?.isDefault == true && microphone?.isMuted == true && microphone?.isMonitor == false)
    #expect(microphone?.format == AudioFormat(.s16le, rate: 16_000, channels: 1))
    #expect(devices.filter(\.isMonitor).map(\.name).sorted() == ["mic_in.monitor", "speaker.monitor"])
    #expect(devices.filter { $0.direction == .output }.map(\.name).sorted() == ["mic_in", "speaker"])
    #expect(devices.filter(\.isDefault).map(\.name).sorted() == ["microphone", "speaker"])
    #expect(Set(devices.map(\.name)).count == devices.count)
    await sound.close()
  }

  @Test("the sound test records, measures and plays back what it heard")
  func soundCheck() async throws {
    let server = try await TestServer()
    let sound = server.system()
    let tone = try await server.playTone(523)
    try await eventually("the tone plays") { try await server.pactl("list", "short", "sink-inputs").contains("native") }
    let recording = try server.record()
    try await recording.begin()
    let report = try await SoundCheck(sound).run(.seconds(1))
    tone.end()
    #expect(report.choice.name == "pulse")
    #expect(report.microphone.name == "microphone" && report.speaker?.name == "speaker")
    #expect(report.recorded.samples.count == 16_000)
    #expect(abs(report.recorded.hertz - 523) < 3)
    #expect(abs(report.recorded.amplitude - 0.5) < 0.03)
    #expect(report.level.peak >= report.recorded.amplitude && report.level.clipped == 0)
    #expect(report.noiseFloor > 0.2)
    #expect(report.firstSample > .zero)
    #expect(report.reason.contains("16000 Hz, 1 channel"))
    #expect(report.playback?.heard == .seconds(1) && report.playbackError == nil)
    #expect(report.notices == [])
    #expect(abs(try await recording.ending(of: 1).hertz - 523) < 3)
    #expect(await sound.microphone.holder == nil)
    #expect(await sound.speaker.holder == nil)
    await sound.close()
  }

  @Test("the sound test says what is wrong: a muted microphone, a missing speaker")
  func soundCheckFindings() async throws {
    let server = try await TestServer()
    try await server.pactl("set-source-mute", "microphone", "1")
    let sound = server.system { $0.output = "nothing" }
    let report = try await SoundCheck(sound).run(.milliseconds(2600))
    #expect(report.notices.contains { $0.contains("nothing but zeros") })
    #expect(report.notices.contains("Microphone is muted."))
    #expect(report.playbackError?.code == .deviceNotFound)
    #expect(report.level.peak == 0)
    await sound.close()
  }

  @Test("nothing runs when nobody listens or speaks: no stream stays open, and a hundred turns leave no thread behind")
  func noGrowth() async throws {
    let server = try await TestServer()
    let sound = server.system()
    func turn() async throws {
      let lease = try await sound.microphone.lease(for: "a test")
      let listener = Listener(try await lease.capture())
      try await eventually("sound") { !listener.now.chunks.isEmpty }
      await lease.release()
      _ = await listener.whole()
      let speaker = try await sound.speaker.lease(for: "a test")
      try await speaker.play(PCM.tone(600, seconds: 0.02, rate: 16_000))
      await speaker.release()
    }
    try await turn()
    let before = Files.list("/proc/self/fd").count
    for _ in 0..<30 { try await turn() }
    // Other suites open and close at the same time: growth would be one a turn at least.
    try await eventually("no descriptor was kept") { Files.list("/proc/self/fd").count < before + 30 }
    try await eventually("no stream is open") {
      let inputs = try await server.pactl("list", "short", "sink-inputs")
      return try await !server.isRecording && !inputs.contains("native")
    }
    await sound.close()
  }
}
