import Camera
import GatewayProtocol
import NodeKit

/// The params of `camera.ptz.control` and the form of a camera's state (node-commands §3.4).
struct PTZParams: Sendable, Equatable {
  var deviceID: String
  var command: PTZCommand

  private static let fields: KeyValuePairs<PTZAxis, String> = [
    .pan: "panDegrees", .tilt: "tiltDegrees", .zoom: "zoomPercent",
  ]

  init(_ json: JSON) throws(CommandError) {
    deviceID = try Self.deviceID(json)
    switch json["operation"]?.string {
    case "set": command = .set(try Self.amounts("target", of: json))
    case "move": command = .move(try Self.amounts("delta", of: json))
    case "home": command = .home
    default: throw .invalidRequest("operation must be set, move or home")
    }
  }

  static func deviceID(_ json: JSON) throws(CommandError) -> String {
    guard let id = try SnapParams.deviceID(json) else { throw .invalidRequest("deviceId required") }
    return id
  }

  /// At least one finite number.
  private static func amounts(_ key: String, of json: JSON) throws(CommandError) -> [PTZAxis: Double] {
    guard let object = json[key], object.object != nil else { throw .invalidRequest("\(key) required") }
    var amounts: [PTZAxis: Double] = [:]
    for (axis, field) in fields {
      guard let value = object[field], !value.isNull else { continue }
      guard let number = value.double, number.isFinite, abs(number) <= 1e6 else {
        throw .invalidRequest("\(key).\(field) must be a finite number")
      }
      amounts[axis] = number
    }
    if amounts.isEmpty { throw .invalidRequest("\(key) needs panDegrees, tiltDegrees or zoomPercent") }
    return amounts
  }

  static func json(_ state: PTZState) -> JSON {
    var axes: [String: JSON] = [:]
    for axis in state.axes {
      axes[axis.axis.rawValue] = .object(present: [
        "current": number(axis.current), "min": number(axis.minimum), "max": number(axis.maximum),
        "step": number(axis.step), "unit": .string(axis.unit), "canSet": .bool(axis.canSet),
        "canMove": .bool(axis.canMove), "default": axis.standard.map(number),
      ])
    }
    return ["axes": .object(axes), "canHome": .bool(state.canHome)]
  }

  static func json(_ state: PTZState, adjusted: [PTZAxis]) -> JSON {
    let names = adjusted.compactMap { axis in fields.first { $0.key == axis }?.value }
    return ["state": json(state), "adjusted": .strings(names)]
  }

  /// To a thousandth: what is finer is the conversion's, not the camera's.
  private static func number(_ value: Double) -> JSON { .double((value * 1000).rounded() / 1000) }
}
