/// A camera that can be asked for.
public struct CameraDevice: Sendable, Hashable {
  public enum Origin: Sendable, Hashable {
    /// A device node, for example `/dev/video0`.
    case v4l2(node: String, driver: String)
    /// A configured recording.
    case recording
    /// A configured program.
    case program
  }
  /// Names it as long as it stays where it is plugged in, and mostly longer: its link below `/dev/v4l/by-id`, else `by-path`, else its
  /// node; a configured source's name.
  public let id: String
  /// What the driver calls it.
  public let name: String
  public let origin: Origin

  public init(id: String, name: String, origin: Origin) {
    self.id = id
    self.name = name
    self.origin = origin
  }

  /// The device node; nil for a configured source.
  public var node: String? { if case .v4l2(let node, _) = origin { node } else { nil } }

  /// `v4l2`, `recording` or `program`.
  public var kind: String {
    switch origin {
    case .v4l2: "v4l2"
    case .recording: "recording"
    case .program: "program"
    }
  }
}
