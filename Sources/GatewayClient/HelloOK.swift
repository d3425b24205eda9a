import GatewayProtocol

/// The answer to a successful `connect` (protocol §3.7), as far as a node needs it. Read leniently: only its type must be right,
/// and numbers that would harm are brought into range.
public struct HelloOK: Sendable, Equatable {
  public struct Auth: Sendable, Equatable {
    /// A token issued for one role.
    public struct Issued: Sendable, Equatable {
      public var token: String
      public var role: Role
      public var scopes: [String]
    }
    public var method: String?
    public var scopes: [String] = []
    /// To be kept for this role.
    public var deviceToken: String?
    /// Further roles' tokens after a bootstrap.
    public var deviceTokens: [Issued] = []
  }

  public var protocolVersion: Int64
  public var serverVersion: String?
  public var connectionID: String?
  public var methods: [String]
  public var auth: Auth
  /// The longest message the gateway takes, in bytes: 1 KiB to 256 MiB.
  public var maxPayload: Int
  /// 0.05 s to 10 minutes.
  public var tickInterval: Duration
  public var mainSessionKey: String?

  /// Nil when `payload` is no hello-ok.
  public init?(payload: JSON?) {
    guard let payload, payload["type"]?.string == "hello-ok" else { return nil }
    protocolVersion = payload["protocol"]?.int ?? Int64(ProtocolLimits.version)
    // Shown to a person, on a line.
    serverVersion = payload["server"]?["version"]?.string.map(ConnectVerdict.oneLine)
    connectionID = payload["server"]?["connId"]?.string
    methods = payload["features"]?["methods"]?.strings ?? []
    auth = Auth()
    if let json = payload["auth"] {
      auth.method = json["method"]?.string
      auth.scopes = json["scopes"]?.strings ?? []
      auth.deviceToken = json["deviceToken"]?.string.flatMap(Self.token)
      for entry in (json["deviceTokens"]?.array ?? []).prefix(8) {
        guard let role = entry["role"]?.string.flatMap(Role.init(rawValue:)),
          let token = entry["deviceToken"]?.string.flatMap(Self.token)
        else { continue }
        auth.deviceTokens.append(Auth.Issued(token: token, role: role, scopes: entry["scopes"]?.strings ?? []))
      }
    }
    let policy = payload["policy"]
    maxPayload = Int(min(max(policy?["maxPayload"]?.int ?? Int64(ProtocolLimits.payload), 1024), 256 << 20))
    let tickMs = policy?["tickIntervalMs"]?.int ?? 30_000
    tickInterval = .milliseconds(min(max(tickMs, 50), 600_000))
    mainSessionKey = payload["snapshot"]?["sessionDefaults"]?["mainSessionKey"]?.string
  }

  /// A token that can be sent back: 1 to 4096 printable ASCII characters.
  static func token(_ text: String) -> String? {
    text.utf8.count <= 4096 && !text.isEmpty && text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F } ? text : nil
  }
}

/// The event `connect.challenge` (protocol §3.1).
struct Challenge: Sendable, Equatable {
  var nonce: String
  /// The gateway's clock, to be signed; nil when it did not say.
  var timestampMs: Int64?

  /// Throws when the nonce is missing, or `ts` is there and is no whole number from 0.
  init(payload: JSON?) throws(LinkError) {
    guard let nonce = payload?["nonce"]?.string, !nonce.isEmpty, nonce.utf8.count <= 512 else {
      throw LinkError(.protocolViolation, "The gateway's challenge has no nonce.")
    }
    self.nonce = nonce
    guard let ts = payload?.object?["ts"] else { return }
    guard let timestamp = ts.int, timestamp >= 0 else {
      throw LinkError(.protocolViolation, "The gateway's challenge has a time that is none.")
    }
    timestampMs = timestamp
  }
}
