import Audio
import Glibc
import System
import TestSupport
import Testing

@Suite("Playback on a PulseAudio server", .serialized)
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
    let heard = try await recording.ending(of: 0.8)
    #expect(abs(heard.secondsOfTone(0.5) - 0.8) < 0.03)
    #expect(abs(heard.hertz - 600) < 2)
    #expect(abs(heard.amplitude - 0.5) < 0.03)
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
    #expect(report.heard > .milliseconds(990))
    try await eventually("silence is recorded after it") {
      let sound = recording.sound
      return sound.loudRange.map { $0.upperBound < sound.samples.count - 24_000 } ?? false
    }
    // What was heard is what the report says and, at most, what was on its way: the stream's 80 ms and the server's own.
    let heard = recording.sound.secondsOfTone(0.5)
    #expect(abs(heard - report.heard.inSeconds) < 0.25, "\(heard) s were heard, \(report.heard) reported")
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
    let folder = TemporaryFolder()
    let server = try await TestServer([
      "load-module module-pipe-sink sink_name=speaker file=\(folder("pipe")) rate=48000 channels=2 format=s16le"
        + " sink_properties=\(property)",
      "load-module module-suspend-on-idle timeout=0",
    ])
    let speaker = SleepySink(path: folder("pipe"), swallows: .milliseconds(swallowed))
    defer { speaker.end() }
    let syllable = PCM.tone(600, seconds: 0.5, rate: 24_000, amplitude: 0.5)
    func play(_ setting: Duration?) async throws -> (SleepySink.Waking, Playback.Report) {
      try await eventually("it sleeps") { try await server.pactl("list", "short", "sinks").contains("SUSPENDED") }
      try await eventually("all was heard") { speaker.isQuiet }
      speaker.sleep()
      let sound = server.system { $0.preRoll = setting }
      let lease = try await sound.speaker.lease(for: "a test")
      let report = try await lease.play(syllable)
      await lease.release()
      await sound.close()
      try await eventually("it sleeps again") { try await server.pactl("list", "short", "sinks").contains("SUSPENDED") }
      try await eventually("all was heard") { speaker.isQuiet }
      return (speaker.lastWaking, report)
    }
    // The server sends zeros until the sound has come to it, so on a busy machine there may be nothing left to swallow.
    try await eventually("without a pre-roll some of the syllable is swallowed") {
      let (waking, report) = try await play(.zero)
      #expect(report.preRoll.duration == .zero)
      return waking.heard.secondsOfTone(0.5) < 0.5 - Double(swallowed) / 2000
    }
    let (waking, report) = try await play(nil)
    #expect(report.preRoll.duration == .milliseconds(preRoll))
    let beginning = try #require(waking.sent.loudRange).lowerBound
    #expect(beginning >= Duration.milliseconds(preRoll - 1).samples(at: 48_000))
    let seconds = waking.heard.secondsOfTone(0.5)
    #expect(abs(seconds - 0.5) < 0.02, "\(seconds) s of 0.5 were heard")
    #expect(report.heard == .milliseconds(500))
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
    try await playback.write(piece.samples)
    try await eventually("the speaker runs dry") { await playback.report.starvations > 0 }
    try await playback.write(piece.samples)
    let report = try await playback.finish()
    #expect(report.heard == .milliseconds(600))
    #expect(abs(try await recording.ending(of: 0.6).secondsOfTone(0.5) - 0.6) < 0.03)
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
