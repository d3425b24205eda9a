import Audio
import Glibc
import System
import TestSupport
import Testing

@Suite("ALSA", .serialized)
struct ALSATests {
  init() { #expect(ALSAConfiguration.isSet) }

  private func system(_ change: (inout AudioSettings) -> Void) -> SoundSystem {
    var settings = AudioSettings(backend: .alsa)
    change(&settings)
    return SoundSystem(settings)
  }

  private func device(_ kind: String, _ server: TestServer, _ name: String) -> String {
    "\(kind):SERVER='\(server.address)',DEVICE=\(name)"
  }

  @Test("a tone is captured through a plug-in device at the rate that was asked for")
  func capture() async throws {
    let server = try await TestServer()
    let tone = try await server.playTone()
    let sound = system { $0.input = device("at_server", server, "microphone") }
    let lease = try await sound.microphone.lease(for: "a test")
    let capture = try await lease.capture(.init(rate: 8000))
    #expect(capture.format.rate == 48_000)
    let listener = Listener(capture)
    try await eventually("a second of tone") { listener.now.nonZero > 8000 }
    await lease.release()
    tone.end()
    let heard = await listener.whole()
    #expect(heard.error == nil)
    #expect(heard.chunks.dropLast().allSatisfy { $0.samples.count == 160 })
    #expect(abs(PCM(Array(heard.samples.suffix(6000)), rate: 8000).hertz - 440) < 3)
  }

  @Test("a device that refuses 16 kHz and 48 kHz is opened at 44.1 kHz stereo, says so, and 16 kHz is heard")
  func refusedRate() async throws {
    let server = try await TestServer()
    let tone = try await server.playTone()
    let sound = system { $0.input = device("only44", server, "microphone") }
    let lease = try await sound.microphone.lease(for: "a test")
    let capture = try await lease.capture()
    #expect(capture.format == AudioFormat(.s16le, rate: 44_100, channels: 2))
    #expect(capture.reason.contains("refused 48000 Hz"))
    let listener = Listener(capture)
    try await eventually("tone") { listener.now.nonZero > 12_000 }
    await lease.release()
    tone.end()
    #expect(abs(PCM(Array(listener.now.samples.suffix(6000)), rate: 16_000).hertz - 440) < 3)
  }

  @Test("a sound is played through a plug-in device, whole and once")
  func playback() async throws {
    let server = try await TestServer()
    let sound = system { $0.output = device("at_server", server, "speaker") }
    let recording = try server.record()
    try await recording.begin()
    let lease = try await sound.speaker.lease(for: "a test")
    let report = try await lease.play(PCM.tone(600, seconds: 0.8, rate: 22_050, amplitude: 0.5))
    #expect(report.heard == .milliseconds(800))
    #expect(report.startLatency != nil)
    // How soundly an ALSA device sleeps can't be known, so it is always given time to wake.
    #expect(report.preRoll.duration == .milliseconds(200))
    let heard = try await recording.ending(of: 0.8)
    #expect(abs(heard.secondsOfTone(0.5) - 0.8) < 0.05)
    #expect(abs(heard.hertz - 600) < 3)
    await lease.release()
  }

  @Test("a stop ends the sound at once, and the device is closed and can be opened again")
  func stop() async throws {
    let server = try await TestServer()
    let sound = system { $0.output = device("at_server", server, "speaker") }
    let lease = try await sound.speaker.lease(for: "a test")
    let playing = Task {
      await failure { () throws(AudioError) in try await lease.play(PCM.tone(600, seconds: 20, rate: 48_000)) }
    }
    try await eventually("it plays") { try await server.pactl("list", "short", "sink-inputs").contains("native") }
    await sound.speaker.hush()
    #expect(await playing.value?.code == .stopped)
    try await eventually("it is closed") { try await !server.pactl("list", "short", "sink-inputs").contains("native") }
    try await lease.play(Cue.stop.sound())
    await lease.release()
  }

  @Test("what is played is what was given, sample by sample")
  func exact() async throws {
    let folder = TemporaryFolder()
    let sound = system {
      $0.output = "to_file:PATH='\(folder("out.raw"))'"
      $0.preRoll = .zero
    }
    let lease = try await sound.speaker.lease(for: "a test")
    let tone = PCM(int16: PCM.tone(600, seconds: 0.5, rate: 48_000).int16, rate: 48_000)
    try await lease.play(tone)
    await lease.release()
    let bytes = try Files.read(folder("out.raw"))
    let written = bytes.withUnsafeBytes { AudioFormat(.s16le, rate: 48_000, channels: 2).mono($0) }
    #expect(Array(written.prefix(tone.samples.count)) == tone.samples)
    #expect(written.dropFirst(tone.samples.count).allSatisfy { $0 == 0 })
  }

  @Test("a device faster than its reader: the oldest sound is dropped, the reader is told, memory stays bounded")
  func overflow() async throws {
    let folder = TemporaryFolder()
    let tone = PCM.tone(600, seconds: 60, rate: 48_000)
    try Files.writeAtomically(AudioFormat(.s16le, rate: 48_000, channels: 2).bytes(tone.samples), to: folder("in.raw"))
    // A file as a device is not paced: it gives a minute of sound in a moment.
    let sound = system { $0.input = "from_file:PATH='\(folder("in.raw"))'" }
    let lease = try await sound.microphone.lease(for: "a test")
    let capture = try await lease.capture(.init(rate: 16_000, bound: .seconds(1)))
    var lost = Duration.zero
    var heard = 0
    func take(_ event: Capture.Event) {
      switch event {
      case .notice(.overflow(let duration)): lost += duration
      case .chunk(let chunk): heard += chunk.samples.count
      case .notice: break
      }
    }
    var iterator = capture.makeAsyncIterator()
    // A reader that takes a hundredth of what comes.
    try await eventually("the reader is told what it lost") {
      if let event = try await iterator.next() { take(event) }
      return lost > .zero
    }
    await lease.release()
    heard = 0
    while let event = try await iterator.next() { take(event) }
    #expect(heard <= 16_000)
  }

  @Test("a device that is not there, by any name, is not found")
  func absent() async throws {
    for name in ["hw:CARD=Nowhere,DEV=0", "no such device", "plughw:9,9"] {
      let sound = system {
        $0.input = name
        $0.output = name
      }
      let lease = try await sound.microphone.lease(for: "a test")
      #expect(await failure { () throws(AudioError) in _ = try await lease.capture() }?.code == .deviceNotFound)
      await lease.release()
      let speaker = try await sound.speaker.lease(for: "a test")
      #expect(
        await failure { () throws(AudioError) in try await speaker.play(Cue.stop.sound()) }?.code == .deviceNotFound)
      await speaker.release()
    }
  }

  @Test("the server behind a plug-in crashes and is started again in mid-capture: the capture goes on")
  func serverRestart() async throws {
    let server = try await TestServer()
    let tone = try await server.playTone()
    let sound = system {
      $0.input = device("at_server", server, "microphone")
      $0.returnGrace = .seconds(20)
    }
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
    #expect(await listener.whole().error == nil)
  }

  @Test("a device that hangs blocks nobody: told, given up, not opened again before it has come back")
  func hangs() async throws {
    let server = try await TestServer()
    let process = try #require(server.server.processID)
    let tone = try await server.playTone()
    let sound = system {
      $0.input = device("at_server", server, "microphone")
      $0.returnGrace = .milliseconds(500)
    }
    let lease = try await sound.microphone.lease(for: "a test")
    let listener = Listener(try await lease.capture())
    try await eventually("tone") { listener.now.nonZero > 8000 }
    kill(process, SIGSTOP)
    let heard = await listener.whole()
    #expect(heard.error?.code == .deviceLost)
    #expect(heard.nonZero > 8000)
    let again = await failure { () throws(AudioError) in _ = try await lease.capture() }
    #expect(again?.code == .deviceStuck)
    kill(process, SIGCONT)
    try await eventually("it can be opened again") {
      await failure { () throws(AudioError) in _ = try await lease.capture() } == nil
    }
    await lease.release()
    tone.end()
  }

  @Test("without a card and without a meaning of its own for the default device, ALSA is absent with a remedy")
  func nothing() async throws {
    // Only where the kernel has no card; where it has one, there is something.
    let backend = ALSABackend()
    let absence = await failure { () throws(AudioError) in _ = try await backend.probe() }
    if Files.list("/dev/snd").isEmpty {
      #expect(absence?.code == .deviceNotFound)
      #expect(absence?.remedy?.contains("aplay -l") == true)
    } else {
      #expect(absence == nil)
    }
    // A device that was named counts, whether it works or not: opening it will tell.
    #expect(await failure { () throws(AudioError) in _ = try await ALSABackend(isConfigured: true).probe() } == nil)
  }
}
