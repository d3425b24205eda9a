import CV4L2
import Glibc
import System

extension Cameras {
  private static let patience: Duration = .seconds(5)

  /// A camera's axes as they stand. Throws `ptzUnsupported` for one that has none, or why it can't be asked.
  public nonisolated func ptz(of device: CameraDevice) async throws(CameraError) -> PTZState {
    let node = try Self.node(of: device)
    let places = places
    return try await onThread(named: "camera ptz", within: Self.patience) { () throws(CameraError) in
      let state = try V4L2Device(node, places: places).ptzControls.state
      if state.axes.isEmpty { throw CameraError(.ptzUnsupported, "This camera can be neither turned nor zoomed.") }
      return state
    }
  }

  /// Moves a camera's axes, and returns how they stand then and which could not go as far as asked. A camera in use can be moved.
  ///
  /// Throws `ptzUnsupported`, `ptzAxisUnsupported`, `ptzPartial` when only some of the axes did as they were told, or why none did.
  public nonisolated func turn(
    _ device: CameraDevice, _ command: PTZCommand
  ) async throws(CameraError) -> (state: PTZState, adjusted: [PTZAxis]) {
    let node = try Self.node(of: device)
    let places = places
    return try await onThread(named: "camera ptz", within: Self.patience) { () throws(CameraError) in
      let device = try V4L2Device(node, places: places)
      let plan = try device.ptzControls.plan(command)
      try device.write(plan.writes)
      return (device.ptzControls.state, plan.adjusted)
    }
  }

  private static func node(of device: CameraDevice) throws(CameraError) -> String {
    if let node = device.node { return node }
    throw CameraError(.ptzUnsupported, "The camera \(device.name) can be neither turned nor zoomed.")
  }
}

extension V4L2Device {
  private static let identifiers: KeyValuePairs<PTZControl.Kind, UInt32> = [
    .absolute(.pan): kCV4L2PanAbsolute, .absolute(.tilt): kCV4L2TiltAbsolute, .absolute(.zoom): kCV4L2ZoomAbsolute,
    .relative(.pan): kCV4L2PanRelative, .relative(.tilt): kCV4L2TiltRelative, .relative(.zoom): kCV4L2ZoomRelative,
    .reset(.pan): kCV4L2PanReset, .reset(.tilt): kCV4L2TiltReset,
  ]

  /// Its controls that move it.
  var ptzControls: PTZControls {
    PTZControls(
      controls: Self.identifiers.compactMap { kind, id in
        var query = v4l2_queryctrl()
        query.id = id
        guard cv4l2_queryctrl(descriptor, &query) == 0, query.flags & kCV4L2CtrlFlagDisabled == 0 else { return nil }
        var value = v4l2_control()
        value.id = id
        let isReadable =
          query.flags & kCV4L2CtrlFlagWriteOnly == 0 && cv4l2_g_ctrl(descriptor, &value) == 0
        return PTZControl(
          kind: kind, minimum: Int(query.minimum), maximum: Int(query.maximum), step: Int(query.step),
          standard: Int(query.default_value), value: isReadable ? Int(value.value) : nil,
          canWrite: query.flags & kCV4L2CtrlFlagReadOnly == 0)
      })
  }

  func write(_ writes: [PTZControls.Write]) throws(CameraError) {
    var failures: [(axis: PTZAxis, error: CameraError)] = []
    for write in writes {
      var control = v4l2_control()
      control.id = Self.identifiers.first { $0.key == write.kind }?.value ?? 0
      control.value = Int32(clamping: write.value)
      let code = cv4l2_s_ctrl(descriptor, &control)
      if code != 0 { failures.append((write.kind.axis, failure(-code, "moved"))) }
    }
    guard let first = failures.first else { return }
    if failures.count == writes.count { throw first.error }
    let names = failures.map(\.axis.rawValue).joined(separator: " and ")
    throw CameraError(.ptzPartial, "The camera moved, but not its \(names): \(first.error.summary)")
  }
}

extension PTZControl.Kind {
  var axis: PTZAxis {
    switch self {
    case .absolute(let axis), .relative(let axis), .reset(let axis): axis
    }
  }
}
