import System

/// A way to microphones. Two are real: `PulseBackend` and `ALSABackend`.
///
/// No method blocks its caller's thread, and each ends within its own deadline, whatever the device or its server does.
public protocol CaptureBackend: Sendable {
  /// `pulse` or `alsa`.
  var name: String { get }
  /// All microphones (and monitors), the default one marked.
  func inputs() async throws(AudioError) -> [AudioDevice]
  /// Opens a microphone at its own rate, channels and format, and delivers what it hears until `close()`.
  ///
  /// `device` is chosen as `AudioSettings.input` says. `deliver` is called on the backend's own thread and must not block; after
  /// `.ended` it is not called again. The first samples may come before this returns.
  func openInput(
    _ device: String?, deliver: @escaping @Sendable (InputEvent) -> Void
  ) async throws(AudioError) -> any InputStream
}

/// A way to speakers.
public protocol PlaybackBackend: Sendable {
  var name: String { get }
  /// All speakers, the default one marked.
  func outputs() async throws(AudioError) -> [AudioDevice]
  /// Opens a speaker at its own rate, channels and format, and plays what is pushed into the stream's `feed`, at the rate that
  /// its `format` names.
  ///
  /// `report` is called on the backend's own thread and must not block.
  func openOutput(
    _ device: String?, report: @escaping @Sendable (OutputEvent) -> Void
  ) async throws(AudioError) -> any OutputStream
}

/// A way to both.
public protocol AudioBackend: CaptureBackend, PlaybackBackend {
  /// Whether it can be used now: what it is (for people), or why not.
  func probe() async throws(AudioError) -> String
  /// Gives connections back. It can be used again afterwards.
  func close() async
}

/// What comes out of an open microphone.
public enum InputEvent: Sendable {
  /// Mono samples at the device's rate. `at` is when the first of them was heard, as well as it is known (`Monotonic`).
  case samples([Float], at: Duration)
  /// Sound was lost before it could be read.
  case gap
  /// The device or its server is gone, or stuck.
  case ended(AudioError)
}

/// An open microphone.
public protocol InputStream: Sendable {
  var device: AudioDevice { get }
  /// What it was opened with, which is its own.
  var format: AudioFormat { get }
  /// Why that format was chosen, in one sentence.
  var reason: String { get }
  /// Closes it; `deliver` is not called any more after this returns. Never takes longer than two seconds.
  func close() async
}

/// What happens to an open speaker.
public enum OutputEvent: Sendable {
  /// The device has begun to sound.
  case started
  /// The feed has ended and everything was heard.
  case finished
  /// The feed was empty while more was expected.
  case starved
  /// The device or its server is gone, or stuck.
  case ended(AudioError)
}

/// An open speaker.
public protocol OutputStream: Sendable {
  var device: AudioDevice { get }
  var format: AudioFormat { get }
  var reason: String { get }
  /// Where it takes its samples from.
  var feed: OutputFeed { get }
  /// How much of the feed has been heard. Nil when it can't be known now.
  func heard() async -> Duration?
  /// Silences it at once and closes it. Never takes longer than two seconds; the silence is there within 100 ms.
  func stop() async
}
