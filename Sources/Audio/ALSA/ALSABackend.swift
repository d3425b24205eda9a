import CALSA
import Glibc
import System

/// Sound through ALSA's devices directly, each stream on a thread of its own.
public final class ALSABackend: AudioBackend {
  public let name = "alsa"
  private let isConfigured: Bool
  private let stuck = ALSAStuck()

  /// How long a device may take to open before it counts as stuck.
  private static let patience: Duration = .seconds(3)

  /// `isConfigured`: the person has named a device, so there is one as far as `probe` is concerned.
  public init(isConfigured: Bool = false) { self.isConfigured = isConfigured }

  public func probe() async throws(AudioError) -> String {
    let library = try ALSALibrary.shared.get()
    let isConfigured = isConfigured
    let leadsSomewhere = try await ask("the default device") { isConfigured || Self.leadsSomewhere(library) }
    if !leadsSomewhere { throw Self.nothing }
    return "ALSA \(text(library.table.snd_asoundlib_version()) ?? "")"
  }

  public func inputs() async throws(AudioError) -> [AudioDevice] { try await list().filter { $0.direction == .input } }
  public func outputs() async throws(AudioError) -> [AudioDevice] {
    try await list().filter { $0.direction == .output }
  }

  public func openInput(
    _ device: String?, deliver: @escaping @Sendable (InputEvent) -> Void
  ) async throws(AudioError) -> any InputStream {
    let library = try ALSALibrary.shared.get()
    let device = try await find(device, .input)
    return try await ALSAInput.open(device, limit: Self.patience, library, stuck, deliver: deliver)
  }

  public func openOutput(
    _ device: String?, report: @escaping @Sendable (OutputEvent) -> Void
  ) async throws(AudioError) -> any OutputStream {
    let library = try ALSALibrary.shared.get()
    let device = try await find(device, .output)
    return try await ALSAOutput.open(device, limit: Self.patience, library, stuck, report: report)
  }

  public func close() async {}

  private static let nothing = AudioError(
    .deviceNotFound, "ALSA knows no sound device.",
    remedy: "Plug one in, or load its driver; aplay -l shows what the kernel has.")

  /// Without a wish, `default`, which is what the system is set to. A name that ALSA's list lacks may still be a device of the person's own
  /// configuration, so it is tried as it is.
  private func find(_ wanted: String?, _ direction: AudioDevice.Direction) async throws(AudioError) -> AudioDevice {
    let devices = try await list()
    if let found = devices.chosen(wanted, direction) { return found }
    guard let wanted else {
      throw AudioError(
        .deviceNotFound, "ALSA has no \(direction.noun).", remedy: "talknode audio list")
    }
    return AudioDevice(backend: name, name: wanted, label: wanted, direction: direction, isSuspended: true)
  }

  /// What ALSA's configuration names: the kernel's cards, and the person's own devices.
  private func list() async throws(AudioError) -> [AudioDevice] {
    let library = try ALSALibrary.shared.get()
    return try await ask("the list of devices") { Self.hints(library) }
  }

  /// Asks the library on a thread of its own.
  private func ask<Answer: Sendable>(
    _ what: String, _ body: @escaping @Sendable () -> Answer
  ) async throws(AudioError) -> Answer {
    try stuck.check(what)
    let thread = try ALSAThread()
    let answer = Outcome<Answer>()
    try thread.start("alsa-ask") { answer.set(body()) }
    do throws(AudioError) {
      return try await within(
        Self.patience, orThrow: AudioError(.deviceStuck, "ALSA does not answer about \(what).")
      ) { await answer.value }
    } catch {
      stuck.add(what, until: thread)
      throw error
    }
  }

  /// Whether there is a card, or `default` has been given a meaning that works without one.
  private static func leadsSomewhere(_ library: ALSALibrary) -> Bool {
    let alsa = library.table
    var card: Int32 = -1
    if alsa.snd_card_next(&card) >= 0 && card >= 0 { return true }
    for stream in [SND_PCM_STREAM_PLAYBACK, SND_PCM_STREAM_CAPTURE] {
      var pcm: OpaquePointer?
      if alsa.snd_pcm_open(&pcm, "default", stream, Int32(SND_PCM_NONBLOCK)) >= 0 {
        _ = alsa.snd_pcm_close(pcm)
        return true
      }
    }
    return false
  }

  private static func hints(_ library: ALSALibrary) -> [AudioDevice] {
    let alsa = library.table
    var hints: UnsafeMutablePointer<UnsafeMutableRawPointer?>?
    guard alsa.snd_device_name_hint(-1, "pcm", &hints) >= 0, let hints else { return [] }
    defer { _ = alsa.snd_device_name_free_hint(hints) }
    func field(_ hint: UnsafeMutableRawPointer, _ name: String) -> String? {
      guard let pointer = alsa.snd_device_name_get_hint(hint, name) else { return nil }
      defer { free(pointer) }
      return String(cString: pointer)
    }
    var devices: [AudioDevice] = []
    var index = 0
    while let hint = hints[index] {
      index += 1
      guard let name = field(hint, "NAME"), isOffered(name) else { continue }
      let words = (field(hint, "DESC") ?? name).split(separator: "\n").joined(separator: ": ")
      let only = field(hint, "IOID")
      for direction in [AudioDevice.Direction.input, .output] {
        if only == "Input" && direction == .output || only == "Output" && direction == .input { continue }
        devices.append(
          AudioDevice(
            backend: "alsa", name: name, label: words, direction: direction, isDefault: name == "default",
            // Its sleep is the driver's own affair and can't be asked for: opening it is waking it.
            isSuspended: true, connection: connection(name, words)))
      }
    }
    return devices
  }

  /// The kernel's devices and what a person has configured; not the many converting variants of each.
  private static func isOffered(_ name: String) -> Bool {
    if name == "null" { return false }
    guard let colon = name.firstIndex(of: ":") else {
      return !["lavrate", "samplerate", "speexrate", "jack", "oss", "speex", "upmix", "vdownmix", "usbstream"].contains(
        name)
    }
    return name[..<colon] == "hw"
  }

  private static func connection(_ name: String, _ label: String) -> AudioDevice.Connection {
    let words = (name + label).lowercased()
    if words.contains("hdmi") { return .hdmi }
    if words.contains("usb") { return .usb }
    return name.hasPrefix("hw:") ? .builtIn : .virtual
  }
}
