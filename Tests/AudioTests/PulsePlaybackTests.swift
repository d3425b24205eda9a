import Audio
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
      do throws(AudioError) {
        try await playback.write(PCM.tone(600, seconds: 20, rate: 48_000).samples)
        return AudioError?.none
      } catch {
        return error
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
}
