import Audio
import Foundation
import System
import TestSupport
import Testing

/// PipeWire with its PulseAudio stand-in and its session manager, on a private bus; all of it is gone when the test is over.
final class PipeWireServer: SoundPeer {
  let folder = TemporaryFolder()
  let address: String
  private let child: Child

  init() async throws {
    #expect(ALSAConfiguration.isSet)
    // The stand-in does not make the folder of its socket.
    try Files.makeFolder(folder("pulse"))
    let address = "unix:" + folder("pulse/native")
    self.address = address
    // Of a file of ours: the package that brings the usual one would replace a running PulseAudio on the machine.
    try folder.write(
      "stand-in.conf",
      """
      context.spa-libs = {
        audio.convert.* = audioconvert/libspa-audioconvert
        support.* = support/libspa-support
      }
      context.modules = [
        { name = libpipewire-module-protocol-native }
        { name = libpipewire-module-client-node }
        { name = libpipewire-module-adapter }
        { name = libpipewire-module-metadata }
        { name = libpipewire-module-protocol-pulse }
      ]
      pulse.properties = { server.address = [ "\(address)" ] }
      """)
    let folders = ["XDG_RUNTIME_DIR", "HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "PIPEWIRE_RUNTIME_DIR"]
    // Foundation's children lead process groups of their own, so all the daemons can be ended together.
    child = try Child(
      // The stand-in and the session manager end when PipeWire is not there yet.
      [
        "dbus-run-session", "--", "sh", "-c",
        """
        pipewire & until [ -S "$PIPEWIRE_RUNTIME_DIR/pipewire-0" ]; do sleep 0.1; done
        wireplumber & pipewire -c '\(folder("stand-in.conf"))' & wait
        """,
      ],
      environment: Dictionary(uniqueKeysWithValues: folders.map { [path = folder.path] in ($0, path) }))
    try await eventually("PipeWire answers") {
      let probe = PulseBackend(server: address)
      defer { Task { await probe.close() } }
      return await failure { () throws(AudioError) in _ = try await probe.probe() } == nil
    }
    for module in [
      "module-null-sink sink_name=speaker rate=48000 channels=2",
      "module-null-sink sink_name=mic_in rate=44100 channels=2",
      "module-remap-source source_name=microphone master=mic_in.monitor",
    ] {
      let words = module.split(separator: " ").map { "\($0)" }
      _ = try await output(of: ["pactl", "-s", address, "load-module"] + words)
    }
    try await eventually("its devices are there") {
      let list = try await self.pactl("list", "short", "sources")
      return list.contains("microphone") && list.contains("speaker.monitor")
    }
    try await pactl("set-default-sink", "speaker")
    try await pactl("set-default-source", "microphone")
  }

  deinit {
    kill(-child.process.processIdentifier, SIGKILL)
    child.process.waitUntilExit()
  }
}

@Suite("PipeWire's PulseAudio stand-in", .serialized)
struct PipeWireTests {
  @Test("it is the chosen way, capture and playback work, and a microphone that goes and comes back goes on")
  func story() async throws {
    let server = try await PipeWireServer()
    let sound = server.system { $0.returnGrace = .seconds(20) }
    let choice = await sound.choice()
    #expect(choice.name == "pulse")
    #expect(choice.reason.contains("PipeWire"))
    let devices = try await sound.devices()
    #expect(devices.chosenNames(.input) == ["microphone"])
    #expect(devices.chosenNames(.output) == ["speaker"])

    let tone = try await server.playTone()
    let lease = try await sound.microphone.lease(for: "a test")
    let capture = try await lease.capture()
    let listener = Listener(capture)
    try await eventually("tone") { listener.now.nonZero > 12_000 }
    #expect(abs(PCM(Array(listener.now.samples.suffix(6000)), rate: 16_000).hertz - 440) < 3)

    try await server.pactl("unload-module", "module-remap-source")
    try await eventually("the loss is said") { !listener.now.comings.isEmpty }
    let before = listener.now.count
    try await server.pactl("load-module", "module-remap-source", "source_name=microphone", "master=mic_in.monitor")
    try await eventually("it goes on") { listener.now.count > before + 8000 }
    await lease.release()
    tone.end()
    #expect(await listener.whole().error == nil)

    let recording = try server.record()
    try await recording.begin()
    let speaker = try await sound.speaker.lease(for: "a test")
    let report = try await speaker.play(PCM.tone(600, seconds: 0.8, rate: 24_000, amplitude: 0.5))
    #expect(report.heard == .milliseconds(800))
    // PipeWire makes one channel of two equal ones by adding their power.
    let amplitude = 0.5 * Float(2).squareRoot()
    let heard = try await recording.ending(of: 0.8, amplitude: amplitude)
    #expect(abs(heard.secondsOfTone(amplitude) - 0.8) < 0.05)
    #expect(abs(heard.hertz - 600) < 3)

    let playing = Task {
      await failure { () throws(AudioError) in try await speaker.play(PCM.tone(600, seconds: 20, rate: 24_000)) }
    }
    try await eventually("it is heard") { recording.sound.secondsOfTone(amplitude) > 1.3 }
    await sound.speaker.hush()
    #expect(await playing.value?.code == .stopped)
    await speaker.release()
    await sound.close()
  }
}

extension [AudioDevice] {
  /// The names of the default devices.
  fileprivate func chosenNames(_ direction: AudioDevice.Direction) -> [String] {
    filter { $0.direction == direction && $0.isDefault }.map(\.name)
  }
}
