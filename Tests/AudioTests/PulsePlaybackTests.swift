import Audio
import Glibc
import System
import Testing

@Suite("Playback on a PulseAudio server")
struct PulsePlaybackTests {
  @Test("a sound at 16 kHz is heard whole, once, at its own pitch on a 48 kHz stereo speaker")
  func whole() async throws {
    let server = try await TestServer()
    let sound = server.system()
    let recording = try server.record()
    try await recording.begin()
    let lease = try await sound.speaker.lease(for: "a test")
    let tone = PCM.tone(600, seconds: 0.8, rate: 16_000, amplitude: 0.5)
    let report = try await lease.play(tone)
    #expect(report.heard == .milliseconds(800))
    #expect(report.startLatency != nil)
    #expect(!report.wasStopped)
    try await eventually("the tone is recorded") {
      let sound = recording.sound
      guard let loud = sound.loudRange else { return false }
      return loud.upperBound < sound.samples.count - 4800
    }
    let heard = recording.sound
    let loud = try #require(heard.loudRange)
    #expect(abs(Double(loud.count) / 48_000 - 0.8) < 0.02)
    let part = PCM(Array(heard.samples[loud]), rate: 48_000)
    #expect(abs(part.hertz - 600) < 2)
    #expect(abs(Level(part.samples).peak - 0.5) < 0.03)
    await lease.release()
    await sound.close()
  }

  @Test("a stop silences the speaker and ends the playback as stopped, with the position reached")
  func stop() async throws {
    let server = try await TestServer()
    let sound = server.system()
    let recording = try server.record()
    try await recording.begin()
    let lease = try await sound.speaker.lease(for: "a test")
    let playback = try await lease.open(rate: 48_000)
    let writing = Task {
      await failure { () throws(AudioError) in
        try await playback.write(PCM.tone(600, seconds: 20, rate: 48_000).samples)
      }
    }
    try await eventually("a second was heard") { await playback.position() > .seconds(1) }
    await sound.speaker.hush()
    #expect(await writing.value?.code == .stopped)
    let report = await playback.report
    #expect(report.wasStopped)
    #expect(report.heard > .milliseconds(990) && report.heard < .seconds(15))
    let loudest = recording.sound.loudRange!.upperBound
    try await eventually("silence is recorded after it") {
      let sound = recording.sound
      return sound.loudRange!.upperBound < sound.samples.count - 24_000
    }
    // What was on its way: the stream's 80 ms and what the recorder had not written yet.
    #expect(recording.sound.loudRange!.upperBound - loudest < 48_000 / 2)
    await lease.release()
    await sound.close()
  }

  @Test(
    "a speaker that sleeps swallows the first syllable; the pre-roll gives it silence to swallow",
    arguments: [
      ("device.description=Sleepy", 150, 200), ("device.bus=bluetooth", 400, 500),
      ("device.profile.name=hdmi-stereo", 250, 300),
    ])
  func preRoll(_ property: String, _ swallowed: Int, _ preRoll: Int) async throws {
    let fifo = temporaryFolder()
    defer { try? Files.removeTree(fifo) }
    let server = try await TestServer([
      "load-module module-pipe-sink sink_name=speaker file=\(fifo)/pipe rate=48000 channels=2 format=s16le"
        + " sink_properties=\(property)",
      "load-module module-suspend-on-idle timeout=0",
    ])
    let speaker = SleepySink(path: fifo + "/pipe", swallowed: .milliseconds(swallowed))
    func asleep() async throws {
      try await eventually("it sleeps") { try await server.pactl("list", "short", "sinks").contains("SUSPENDED") }
      try await Task.sleep(for: .milliseconds(600))
    }
    let syllable = PCM.tone(600, seconds: 0.5, rate: 24_000, amplitude: 0.5)
    func play(_ setting: Duration?) async throws -> (Double, Playback.Report) {
      try await asleep()
      let before = speaker.heard.samples.count
      let sound = server.system { $0.preRoll = setting }
      let lease = try await sound.speaker.lease(for: "a test")
      let report = try await lease.play(syllable)
      await lease.release()
      await sound.close()
      try await asleep()
      let heard = PCM(Array(speaker.heard.samples.dropFirst(before)), rate: 48_000)
      let loud = try #require(heard.loudRange)
      return (Double(loud.count) / 48, report)
    }
    let (cut, without) = try await play(.zero)
    #expect(without.preRoll.duration == .zero)
    #expect(cut < 500 - Double(swallowed) / 2)
    let (whole, with) = try await play(nil)
    #expect(with.preRoll.duration == .milliseconds(preRoll))
    #expect(whole > 490 && whole < 520, "\(whole) ms of 500 were heard")
    #expect(with.heard == .milliseconds(500))
    #expect(speaker.wakeUps == 2)
    speaker.end()
  }

  @Test("a speaker that is awake is given no pre-roll")
  func awake() async throws {
    let server = try await TestServer()
    let sound = server.system()
    let lease = try await sound.speaker.lease(for: "a test")
    let report = try await lease.play(Cue.start.sound())
    #expect(report.preRoll.duration == .zero)
    await lease.release()
    await sound.close()
  }

  @Test("pieces written with pauses between them are all heard, and the pauses are counted as such")
  func starved() async throws {
    let server = try await TestServer()
    let sound = server.system()
    let recording = try server.record()
    try await recording.begin()
    let lease = try await sound.speaker.lease(for: "a test")
    let playback = try await lease.open(rate: 22_050)
    let piece = PCM.tone(600, seconds: 0.3, rate: 22_050, amplitude: 0.5)
    for _ in 0..<2 {
      try await playback.write(piece.samples)
      try await eventually("it is heard") { await playback.position() > .milliseconds(200) }
      try await Task.sleep(for: .milliseconds(600))
    }
    let report = try await playback.finish()
    #expect(report.heard == .milliseconds(600))
    #expect(report.starvations >= 1)
    try await Task.sleep(for: .milliseconds(300))
    let loud = recording.sound.samples.filter { abs($0) > 0.01 }.count
    #expect(abs(Double(loud) / 48_000 - 0.6) < 0.05)
    await lease.release()
    await sound.close()
  }

  @Test("events tell the start with its latency, then the end")
  func events() async throws {
    let server = try await TestServer()
    let sound = server.system()
    let lease = try await sound.speaker.lease(for: "a test")
    let playback = try await lease.open(rate: 48_000)
    try await playback.write(Cue.error.sound().samples)
    _ = try await playback.finish()
    var events: [Playback.Event] = []
    for await event in playback.events { events.append(event) }
    #expect(events.count == 2)
    guard case .started = events.first else {
      Issue.record("\(events)")
      return
    }
    #expect(events.last == .finished)
    // Nothing at all is finished at once.
    let nothing = try await lease.open(rate: 48_000)
    #expect(try await nothing.finish().heard == .zero)
    await lease.release()
    await sound.close()
  }

  @Test("one speaker: the second asker hears who has it; a release in mid-sound ends it")
  func oneOwner() async throws {
    let server = try await TestServer()
    let sound = server.system()
    let first = try await sound.speaker.lease(for: "an answer")
    let busy = await #expect(throws: AudioError.self) { try await sound.speaker.lease(for: "Listen") }
    #expect(busy?.code == .speakerBusy && busy?.summary.contains("an answer") == true)
    let playing = Task {
      await failure { () throws(AudioError) in try await first.play(PCM.tone(600, seconds: 20, rate: 48_000)) }
    }
    try await eventually("it plays") {
      try await server.pactl("list", "short", "sink-inputs").contains("protocol-native")
    }
    await first.release()
    #expect(await playing.value?.code == .stopped)
    let second = try await sound.speaker.lease(for: "Listen")
    try await second.play(Cue.stop.sound())
    let late = await #expect(throws: AudioError.self) { try await first.open(rate: 8000) }
    #expect(late?.code == .stopped)
    await second.release()
    try await eventually("it is silent") { try await !server.pactl("list", "short", "sink-inputs").contains("native") }
    await sound.close()
  }

  @Test("the server crashes in mid-sound: the playback fails with where it was, and does not hang")
  func crash() async throws {
    let server = try await TestServer()
    let sound = server.system()
    let lease = try await sound.speaker.lease(for: "an answer")
    let playback = try await lease.open(rate: 48_000)
    let writing = Task {
      await failure { () throws(AudioError) in
        try await playback.write(PCM.tone(600, seconds: 20, rate: 48_000).samples)
      }
    }
    try await eventually("it plays") { await playback.position() > .milliseconds(300) }
    await server.server.crash()
    #expect(await writing.value?.code == .serverUnavailable)
    let ending = await #expect(throws: AudioError.self) { try await playback.finish() }
    #expect(ending?.code == .serverUnavailable)
    await lease.release()
    await sound.close()
  }

  @Test("the server hangs in mid-sound: the playback fails as stuck, and a stop never waits for it")
  func hangs() async throws {
    let server = try await TestServer()
    let process = try #require(server.server.processID)
    let sound = server.system()
    let lease = try await sound.speaker.lease(for: "an answer")
    let playback = try await lease.open(rate: 48_000)
    let writing = Task {
      await failure { () throws(AudioError) in
        try await playback.write(PCM.tone(600, seconds: 20, rate: 48_000).samples)
      }
    }
    try await eventually("it plays") { await playback.position() > .milliseconds(300) }
    kill(process, SIGSTOP)
    #expect(await writing.value?.code == .deviceStuck)
    let opening = await #expect(throws: AudioError.self) { try await lease.open(rate: 48_000) }
    #expect(opening?.code == .deviceStuck)
    kill(process, SIGCONT)
    try await lease.play(Cue.start.sound())
    await lease.release()
    await sound.close()
  }
}
