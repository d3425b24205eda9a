/// Sound on this machine: the one microphone, the one speaker, and the way to them.
///
/// Nothing is opened, and no library loaded, before somebody asks for something.
public final class SoundSystem: Sendable {
  /// What the owners of the devices share.
  final class Core: Sendable {
    let settings: AudioSettings
    private let backends: [any AudioBackend]

    init(_ settings: AudioSettings, backends: [any AudioBackend]) {
      self.settings = settings
      self.backends = backends
    }

    func choice() async -> AudioChoice {
      var passedOver: [AudioChoice.PassedOver] = []
      for backend in backends {
        do throws(AudioError) {
          let what = try await backend.probe()
          let rule =
            backends.count == 1
            ? "chosen by the settings"
            : passedOver.isEmpty ? "a running sound server comes first" : "no sound server answers"
          return AudioChoice(backend, reason: "\(what) (\(rule))", passedOver: passedOver)
        } catch {
          passedOver.append(AudioChoice.PassedOver(name: backend.name, error: error))
        }
      }
      return AudioChoice(nothing: passedOver)
    }

    /// The way to try when a device is busy on `backend`; nil when there is none that can be used now.
    func other(than backend: any AudioBackend) async -> (any AudioBackend)? {
      for other in backends where other.name != backend.name {
        do throws(AudioError) {
          _ = try await other.probe()
          return other
        } catch { continue }
      }
      return nil
    }

    func close() async {
      for backend in backends { await backend.close() }
    }
  }

  private let core: Core
  public let microphone: Microphone
  public let speaker: Speaker

  public convenience init(_ settings: AudioSettings = AudioSettings()) {
    let alsa = { ALSABackend(isConfigured: settings.input != nil || settings.output != nil) }
    let pulse = { PulseBackend(server: settings.server) }
    let backends: [any AudioBackend] =
      switch settings.backend {
      case .auto: [pulse(), alsa()]
      case .pulse: [pulse()]
      case .alsa: [alsa()]
      }
    self.init(settings, backends: backends)
  }

  /// With backends of the caller's choice, the preferred one first.
  public init(_ settings: AudioSettings, backends: [any AudioBackend]) {
    core = Core(settings, backends: backends)
    microphone = Microphone(sound: core)
    speaker = Speaker(sound: core)
  }

  public var settings: AudioSettings { core.settings }

  /// Which way would be taken now, and why.
  public func choice() async -> AudioChoice { await core.choice() }

  /// All microphones and speakers on the way that is taken, the default ones marked.
  public func devices() async throws(AudioError) -> [AudioDevice] {
    let choice = await core.choice()
    guard let backend = choice.backend else { throw choice.error }
    return try await backend.inputs() + backend.outputs()
  }

  /// Gives connections to sound servers back. Streams must have been stopped before; it can be used again afterwards.
  public func close() async { await core.close() }
}
