import GatewayProtocol
import System
import Transport

/// One gateway this device knows.
public struct GatewayRecord: Sendable, Equatable {
  /// The stable id: `manual|host|port` of the primary route, with the context path behind it where there is one. Tokens and pins
  /// belong to it and are never used for another.
  public let id: String
  /// What a person calls it.
  public var name: String
  /// The primary route, which the id is made of.
  public let primary: Endpoint
  /// The route in use.
  public var endpoint: Endpoint
  /// All routes in the order they are tried.
  public var routes: [Endpoint]
  /// Accepted certificates: SHA-256 of the leaf by `host:port`.
  public var pins: [String: [UInt8]]
  /// Milliseconds since 1970.
  public var addedAtMs: Int64
  public var isActive: Bool

  public init(
    name: String? = nil, primary: Endpoint, endpoint: Endpoint? = nil, routes: [Endpoint]? = nil,
    pins: [String: [UInt8]] = [:], addedAtMs: Int64, isActive: Bool = false
  ) {
    id = Self.id(of: primary)
    self.name = name ?? primary.host
    self.primary = primary
    self.endpoint = endpoint ?? primary
    self.routes = routes ?? [primary]
    self.pins = pins
    self.addedAtMs = addedAtMs
    self.isActive = isActive
  }

  /// The certificate that the route in use must show; nil = the system's trust store decides.
  public var pin: [UInt8]? { pins[endpoint.authority] }

  /// How the route in use is trusted.
  public var trust: Trust { pin.map(Trust.pinned) ?? .system }

  /// Loopback, or TLS with a pinned certificate: only there may a device token go beside a shared one (protocol §5.4).
  public var isTrustedEndpoint: Bool {
    endpoint.isTLS ? pin != nil : PlaintextPolicy.isLoopback(endpoint.host)
  }

  /// The stable id of a gateway whose primary route is `endpoint`.
  public static func id(of endpoint: Endpoint) -> String {
    "manual|\(endpoint.host.lowercased())|\(endpoint.port)" + (endpoint.path == "/" ? "" : "|\(endpoint.path)")
  }
}

extension GatewayRecord {
  var json: JSON {
    [
      "version": 1, "id": .string(id), "name": .string(name), "primary": .string(primary.description),
      "endpoint": .string(endpoint.description), "routes": .strings(routes.map(\.description)),
      "pins": .object(pins.mapValues { .string(hexadecimal($0)) }), "addedAtMs": .int(addedAtMs),
    ]
  }

  /// Reads what `json` writes; nil when it is something else.
  init?(json: JSON) {
    guard let primary = json["primary"]?.string.flatMap({ Endpoint(url: $0) }),
      json["id"]?.string == Self.id(of: primary)
    else { return nil }
    var pins: [String: [UInt8]] = [:]
    for (authority, value) in json["pins"]?.object ?? [:] {
      // A pin that can't be read must not turn into "no pin".
      guard let pin = value.string.flatMap({ bytes(hexadecimal: $0) }), pin.count == 32 else { return nil }
      pins[authority] = pin
    }
    self.init(
      name: json["name"]?.string, primary: primary, endpoint: json["endpoint"]?.string.flatMap { Endpoint(url: $0) },
      routes: json["routes"]?.strings?.compactMap { Endpoint(url: $0) }, pins: pins,
      addedAtMs: json["addedAtMs"]?.int ?? 0)
  }
}
