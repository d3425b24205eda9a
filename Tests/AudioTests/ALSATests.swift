import Audio
import Glibc
import System
import Testing

/// ALSA's own configuration with devices for these tests. The system's file comes first in the list, or the plug-ins are unknown.
private enum Configuration {
  static let folder = temporaryFolder()

  static let isSet: Bool = {
    let text = """
      pcm.at_server {
        @args [ SERVER DEVICE ]
        @args.SERVER { type string }
        @args.DEVICE { type string }
        type pulse
        server $SERVER
        device $DEVICE
      }
      pcm.only44 {
        @args [ SERVER DEVICE ]
        @args.SERVER { type string }
        @args.DEVICE { type string }
        type plug
        slave {
          pcm { type pulse server $SERVER device $DEVICE }
          rate 44100
          channels 2
          format S16_LE
        }
      }
      pcm.to_file {
        @args [ PATH ]
        @args.PATH { type string }
        type file
        file $PATH
        format "raw"
        slave.pcm "null"
      }
      pcm.from_file {
        @args [ PATH ]
        @args.PATH { type string }
        type file
        file "/dev/null"
        infile $PATH
        format "raw"
        slave.pcm "null"
      }
      """
    try? Files.writeAtomically(Array(text.utf8), to: folder + "/asound.conf")
    setenv("ALSA_CONFIG_PATH", "/usr/share/alsa/alsa.conf:\(folder)/asound.conf", 1)
    atexit { try? Files.removeTree(Configuration.folder) }
    return true
  }()
}

@Suite("ALSA")
struct ALSATests {
  init() { #expect(Configuration.isSet) }

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
    let tone = try server.playTone()
    let sound = system { $0.input = device("at_server", server, "microphone") }
    let lease = try await sound.microphone.lease(for: "a test")
    let capture = try await lease.capture(.init(rate: 8000))
    #expect(capture.format.rate == 48_000)
    let listener = Listener(capture)
    try await eventually("a second of tone") { listener.now.samples.filter { $0 != 0 }.count > 8000 }
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
    let tone = try server.playTone()
    let sound = system { $0.input = device("only44", server, "microphone") }
    let lease = try await sound.microphone.lease(for: "a test")
    let capture = try await lease.capture()
    #expect(capture.format == AudioFormat(.s16le, rate: 44_100, channels: 2))
    #expect(capture.reason.contains("refused 48000 Hz"))
    let listener = Listener(capture)
    try await eventually("tone") { listener.now.samples.filter { $0 != 0 }.count > 12_000 }
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
    try await eventually("the end is recorded") {
      let sound = recording.sound
      guard let loud = sound.loudRange else { return false }
      return loud.upperBound < sound.samples.count - 4800
    }
    let heard = recording.sound
    let loud = try #require(heard.loudRange)
    #expect(abs(Double(loud.count) / 48_000 - 0.8) < 0.03)
    #expect(abs(PCM(Array(heard.samples[loud]), rate: 48_000).hertz - 600) < 3)
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
    try await Task.sleep(for: .milliseconds(300))
    await sound.speaker.hush()
    #expect(await playing.value?.code == .stopped)
    try await eventually("it is closed") { try await !server.pactl("list", "short", "sink-inputs").contains("native") }
    try await lease.play(Cue.stop.sound())
    await lease.release()
  }

  @Test("what is played is what was given, sample by sample")
  func exact() async throws {
    let path = temporaryFolder()
    defer { try? Files.removeTree(path) }
    let sound = system {
      $0.output = "to_file:PATH='\(path)/out.raw'"
      $0.preRoll = .zero
    }
    let lease = try await sound.speaker.lease(for: "a test")
    let tone = PCM(int16: PCM.tone(600, seconds: 0.5, rate: 48_000).int16, rate: 48_000)
    try await lease.play(tone)
    await lease.release()
    let bytes = try Files.read(path + "/out.raw")
    let written = bytes.withUnsafeBytes { AudioFormat(.s16le, rate: 48_000, channels: 2).mono($0) }
    #expect(Array(written.prefix(tone.samples.count)) == tone.samples)
    #expect(written.dropFirst(tone.samples.count).allSatisfy { $0 == 0 })
  }

  @Test("a device faster than its reader: the oldest sound is dropped, the reader is told, memory stays bounded")
  func overflow() async throws {
    let path = temporaryFolder()
    defer { try? Files.removeTree(path) }
    let tone = PCM.tone(600, seconds: 60, rate: 48_000)
    try Files.writeAtomically(AudioFormat(.s16le, rate: 48_000, channels: 2).bytes(tone.samples), to: path + "/in.raw")
    // A file as a device is not paced: it gives a minute of sound in a moment.
    let sound = system { $0.input = "from_file:PATH='\(path)/in.raw'" }
    let lease = try await sound.microphone.lease(for: "a test")
    let capture = try await lease.capture(.init(rate: 16_000, bound: .seconds(1)))
    try await Task.sleep(for: .milliseconds(500))
    await lease.release()
    var lost = Duration.zero
    var heard = 0
    for try await event in capture {
      switch event {
      case .notice(.overflow(let duration)): lost += duration
      case .chunk(let chunk): heard += chunk.samples.count
      case .notice: break
      }
    }
    #expect(lost > .zero)
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
    let tone = try server.playTone()
    let sound = system {
      $0.input = device("at_server", server, "microphone")
      $0.returnGrace = .seconds(20)
    }
    let lease = try await sound.microphone.lease(for: "a test")
    let listener = Listener(try await lease.capture())
    try await eventually("tone") { listener.now.samples.filter { $0 != 0 }.count > 8000 }
    await server.server.crash()
    tone.end()
    try await eventually("the loss is said") { !listener.now.notices.isEmpty }
    let before = listener.now.samples.count
    try await server.server.start()
    let second = try server.playTone(880)
    try await eventually("it goes on") { listener.now.samples.dropFirst(before).filter { $0 != 0 }.count > 8000 }
    await lease.release()
    second.end()
    #expect(await listener.whole().error == nil)
  }

  @Test("a device that hangs blocks nobody: told, given up, not opened again before it has come back")
  func hangs() async throws {
    let server = try await TestServer()
    let process = try #require(server.server.processID)
    let tone = try server.playTone()
    let sound = system {
      $0.input = device("at_server", server, "microphone")
      $0.returnGrace = .milliseconds(500)
    }
    let lease = try await sound.microphone.lease(for: "a test")
    let listener = Listener(try await lease.capture())
    try await eventually("tone") { listener.now.samples.filter { $0 != 0 }.count > 8000 }
    kill(process, SIGSTOP)
    let heard = await listener.whole()
    #expect(heard.error?.code == .deviceLost)
    #expect(heard.samples.filter { $0 != 0 }.count > 8000)
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
