/// A microphone or a speaker, as a backend lists it.
public struct AudioDevice: Sendable, Equatable {
  public enum Direction: String, Sendable {
    case input, output
    /// What a person calls such a device.
    public var noun: String { self == .input ? "microphone" : "speaker" }
  }

  /// How it is attached, as far as the backend knows.
  public enum Connection: String, Sendable {
    case builtIn = "built-in"
    case usb, bluetooth, hdmi, network, virtual, unknown
  }

  /// `pulse` or `alsa`.
  public var backend: String
  /// The name that stays the same when the device goes and comes back; what a configuration holds.
  public var name: String
  /// What a person calls it.
  public var label: String
  public var direction: Direction
  public var isDefault: Bool
  /// A source that hears what a sink plays; never chosen by default as a microphone.
  public var isMonitor: Bool
  /// The device's own format, where it can be known without opening it.
  public var format: AudioFormat?
  public var isMuted: Bool
  /// Whether the device is asleep and has to wake up before it sounds.
  public var isSuspended: Bool
  public var connection: Connection

  public init(
    backend: String, name: String, label: String, direction: Direction, isDefault: Bool = false,
    isMonitor: Bool = false,
    format: AudioFormat? = nil, isMuted: Bool = false, isSuspended: Bool = false, connection: Connection = .unknown
  ) {
    self.backend = backend
    self.name = name
    self.label = label
    self.direction = direction
    self.isDefault = isDefault
    self.isMonitor = isMonitor
    self.format = format
    self.isMuted = isMuted
    self.isSuspended = isSuspended
    self.connection = connection
  }
}

extension Array where Element == AudioDevice {
  /// The device that a person means by `wanted`: an exact name, else the only one with it in its name or label in any case. With
  /// nil the default one; a monitor is never taken for a microphone unless it is named.
  public func chosen(_ wanted: String?, _ direction: AudioDevice.Direction) -> AudioDevice? {
    let candidates = filter { $0.direction == direction }
    guard let wanted else {
      let real = candidates.filter { !$0.isMonitor }
      return real.first { $0.isDefault } ?? (real.count == 1 ? real[0] : nil)
    }
    if let exact = candidates.first(where: { $0.name == wanted }) { return exact }
    let needle = wanted.lowercased()
    let fits = candidates.filter { $0.name.lowercased().contains(needle) || $0.label.lowercased().contains(needle) }
    let real = fits.filter { !$0.isMonitor }
    return real.count == 1 ? real[0] : fits.count == 1 ? fits[0] : nil
  }
}
