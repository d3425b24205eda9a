/// Audio: sound in and sound out. The microphone and the speaker with one owner each, PulseAudio (and PipeWire) and ALSA
/// behind them, and what has to happen to samples on the way: decoding, down-mix, sample rates, µ-law, levels.
///
/// Inside, sound is mono `Float` samples with a rate (`PCM`). A device is opened at its own rate, channels and format; the
/// conversion is done here, because "the card does 16 kHz" is a promise that many cards don't keep.
///
/// Nothing here knows a gateway, a command or a transcript. The C libraries are opened on first use; one that is missing
/// is an `AudioError` with the package to install.

/// What a person may choose about sound. Every setting has a default that suits most machines.
public struct AudioSettings: Sendable, Equatable {
  /// Which way to the devices.
  public enum Backend: String, Sendable, CaseIterable {
    /// A running sound server if there is one, else ALSA.
    case auto
    /// A PulseAudio or PipeWire server, and nothing else.
    case pulse
    /// ALSA devices directly, and nothing else.
    case alsa
  }

  public var backend: Backend
  /// The microphone: a name from `SoundSystem.devices()`, or a part of its name or description that fits one device only. Nil
  /// is the system's default.
  public var input: String?
  /// The speaker, chosen like `input`.
  public var output: String?
  /// The sound server's address as PulseAudio writes it, for example `unix:/run/user/1000/pulse/native`. Nil is libpulse's own
  /// rule, which includes `PULSE_SERVER`.
  public var server: String?
  /// Silence played before speech so that a sleeping speaker does not swallow its beginning. Nil lets `PreRoll` decide.
  public var preRoll: Duration?
  /// How long a capture waits for a microphone that went away before it ends.
  public var returnGrace: Duration

  public init(
    backend: Backend = .auto, input: String? = nil, output: String? = nil, server: String? = nil,
    preRoll: Duration? = nil,
    returnGrace: Duration = .seconds(5)
  ) {
    self.backend = backend
    self.input = input
    self.output = output
    self.server = server
    self.preRoll = preRoll
    self.returnGrace = returnGrace
  }
}
