/// Turning and zooming a camera: what it can, and what is to be written to do what is asked. Values; `Cameras+PTZ` writes.

/// What can move.
public enum PTZAxis: String, Sendable, CaseIterable {
  case pan, tilt, zoom
}

/// One of a driver's controls that move a camera, as it stands.
struct PTZControl: Sendable, Equatable {
  enum Kind: Sendable, Hashable {
    case absolute(PTZAxis)
    case relative(PTZAxis)
    /// Back to the middle.
    case reset(PTZAxis)
  }
  var kind: Kind
  var minimum: Int
  var maximum: Int
  var step: Int
  var standard: Int
  /// nil where it can't be read.
  var value: Int?
  var canWrite: Bool
}

/// A camera's axes as they stand. Pan and tilt in degrees, zoom in percent of its range.
public struct PTZState: Sendable, Equatable {
  public struct Axis: Sendable, Equatable {
    public var axis: PTZAxis
    /// 0 for an axis that can only be moved from where it is.
    public var current: Double
    public var minimum: Double
    public var maximum: Double
    public var step: Double
    public var standard: Double?
    /// It can be brought to a place.
    public var canSet: Bool
    /// It can be moved by an amount.
    public var canMove: Bool
    public init(
      axis: PTZAxis, current: Double, minimum: Double, maximum: Double, step: Double, standard: Double?, canSet: Bool,
      canMove: Bool
    ) {
      self.axis = axis
      self.current = current
      self.minimum = minimum
      self.maximum = maximum
      self.step = step
      self.standard = standard
      self.canSet = canSet
      self.canMove = canMove
    }

    /// `degrees` or `percent`.
    public var unit: String { axis == .zoom ? "percent" : "degrees" }
  }
  /// Only those the camera has and that can be moved or set.
  public var axes: [Axis]
  public var canHome: Bool

  public init(axes: [Axis], canHome: Bool) {
    self.axes = axes
    self.canHome = canHome
  }
}

/// What is asked of a camera's axes: degrees and percent.
public enum PTZCommand: Sendable, Equatable {
  case set([PTZAxis: Double])
  case move([PTZAxis: Double])
  case home
}

/// A camera's controls together.
struct PTZControls: Sendable, Equatable {
  var controls: [PTZControl]

  /// V4L2 counts pan and tilt in arc-seconds.
  private static let secondsPerDegree = 3600.0

  private func control(_ kind: PTZControl.Kind) -> PTZControl? {
    controls.first { $0.kind == kind && $0.canWrite && $0.maximum > $0.minimum }
  }
  private func reset(_ axis: PTZAxis) -> PTZControl? { controls.first { $0.kind == .reset(axis) && $0.canWrite } }

  var state: PTZState {
    let axes = PTZAxis.allCases.compactMap { axis -> PTZState.Axis? in
      if let control = control(.absolute(axis)) {
        let scale = Scale(control, axis)
        return PTZState.Axis(
          axis: axis, current: scale.outside(control.value ?? control.standard),
          minimum: scale.outside(control.minimum),
          maximum: scale.outside(control.maximum), step: scale.amount(max(1, control.step)),
          standard: scale.outside(control.standard), canSet: true, canMove: true)
      }
      guard let control = control(.relative(axis)) else { return nil }
      let scale = Scale(control, axis, isRelative: true)
      return PTZState.Axis(
        axis: axis, current: 0, minimum: scale.outside(control.minimum), maximum: scale.outside(control.maximum),
        step: scale.amount(max(1, control.step)), standard: nil, canSet: false, canMove: true)
    }
    return PTZState(axes: axes, canHome: !homeWrites.isEmpty)
  }

  /// Between a control's numbers and those of the outside.
  private struct Scale {
    let base: Double
    let perUnit: Double

    init(_ control: PTZControl, _ axis: PTZAxis, isRelative: Bool = false) {
      guard axis == .zoom else {
        (base, perUnit) = (0, secondsPerDegree)
        return
      }
      // What a unit of zoom is differs from camera to camera; its range does not. A relative zoom's whole range is 100 each way.
      base = isRelative ? 0 : Double(control.minimum)
      let span = isRelative ? Double(max(control.maximum, 1)) : Double(control.maximum - control.minimum)
      perUnit = span / 100
    }

    func outside(_ value: Int) -> Double { (Double(value) - base) / perUnit }
    func amount(_ value: Int) -> Double { Double(value) / perUnit }
    func inside(_ value: Double) -> Double { value * perUnit + base }
    func insideAmount(_ value: Double) -> Double { value * perUnit }
  }

  /// One value to write.
  struct Write: Sendable, Equatable {
    var kind: PTZControl.Kind
    var value: Int
  }

  /// What to write for a command, and the axes that could not go as far as was asked. Throws `ptzUnsupported` or `ptzAxisUnsupported`.
  func plan(_ command: PTZCommand) throws(CameraError) -> (writes: [Write], adjusted: [PTZAxis]) {
    if state.axes.isEmpty {
      throw CameraError(.ptzUnsupported, "This camera can be neither turned nor zoomed.")
    }
    switch command {
    case .home:
      if homeWrites.isEmpty { throw CameraError(.ptzUnsupported, "This camera has no home position.") }
      return (homeWrites, [])
    case .set(let targets):
      return try plan(targets) { axis, value in
        control(.absolute(axis)).map { ($0, Scale($0, axis).inside(value)) }
      }
    case .move(let deltas):
      return try plan(deltas) { axis, delta in
        if let control = control(.absolute(axis)) {
          return (control, Double(control.value ?? control.standard) + Scale(control, axis).insideAmount(delta))
        }
        return control(.relative(axis)).map { ($0, Scale($0, axis, isRelative: true).inside(delta)) }
      }
    }
  }

  private func plan(
    _ values: [PTZAxis: Double], _ find: (PTZAxis, Double) -> (PTZControl, Double)?
  ) throws(CameraError) -> (writes: [Write], adjusted: [PTZAxis]) {
    var writes: [Write] = []
    var adjusted: [PTZAxis] = []
    for axis in PTZAxis.allCases {
      guard let value = values[axis] else { continue }
      guard let (control, wanted) = find(axis, value) else {
        let has = state.axes.contains { $0.axis == axis }
        throw CameraError(
          .ptzAxisUnsupported,
          has ? "This camera's \(axis.rawValue) can only be moved, not set." : "This camera has no \(axis.rawValue).")
      }
      let clamped = min(max(wanted, Double(control.minimum)), Double(control.maximum))
      if abs(clamped - wanted) > 0.5 { adjusted.append(axis) }
      // To the nearest step from the minimum, as drivers count them.
      let step = Double(max(1, control.step))
      let steps = ((clamped - Double(control.minimum)) / step).rounded()
      let stepped = Double(control.minimum) + steps * step
      writes.append(Write(kind: control.kind, value: Int(min(stepped, Double(control.maximum)))))
    }
    return (writes, adjusted)
  }

  /// Resets where there are some; elsewhere the axes' own defaults.
  private var homeWrites: [Write] {
    PTZAxis.allCases.compactMap { axis in
      if let reset = reset(axis) { return Write(kind: reset.kind, value: 1) }
      return control(.absolute(axis)).map { Write(kind: $0.kind, value: $0.standard) }
    }
  }
}
