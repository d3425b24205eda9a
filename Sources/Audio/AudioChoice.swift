/// Which way to the devices is taken, and why: what `doctor` prints.
///
/// The rule of `auto`: a sound server that answers is used, because it shares the devices with other programs and follows the
/// person's own choice of device; without one, ALSA. A device that is busy, or a server that is gone, on the chosen way
/// is tried on the other.
public struct AudioChoice: Sendable {
  /// A way that was looked at and not taken.
  public struct PassedOver: Sendable, Equatable {
    /// `pulse` or `alsa`.
    public let name: String
    public let error: AudioError
  }

  let backend: (any AudioBackend)?
  /// `pulse`, `alsa` or `none`.
  public let name: String
  /// One sentence.
  public let reason: String
  public let passedOver: [PassedOver]

  init(_ backend: any AudioBackend, reason: String, passedOver: [PassedOver]) {
    self.backend = backend
    name = backend.name
    self.reason = reason
    self.passedOver = passedOver
  }

  init(nothing passedOver: [PassedOver]) {
    backend = nil
    name = "none"
    reason = "No sound: " + passedOver.map(\.error.summary).joined(separator: " ")
    self.passedOver = passedOver
  }

  /// What to throw when there is no backend.
  var error: AudioError {
    guard let first = passedOver.first else { return AudioError(.serverUnavailable, "No way to sound devices is set.") }
    let remedies = passedOver.compactMap(\.error.remedy)
    return AudioError(
      first.error.code, passedOver.map(\.error.summary).joined(separator: " "),
      remedy: remedies.isEmpty ? nil : remedies.joined(separator: " Or: "))
  }
}
