import Glibc

/// Who sits at this machine, as logind knows it (org.freedesktop.login1, on the system bus).
public struct LoginSessions: Sendable {
  private static let service = "org.freedesktop.login1"
  private static let patience: Duration = .seconds(1)
  private let systemBus: SharedBus
  private let user: UInt32

  /// Of the sessions, those of `user` are looked at: by default of this process's.
  public init(systemBus: SharedBus, user: UInt32 = getuid()) {
    self.systemBus = systemBus
    self.user = user
  }

  /// Whether somebody could sit down here: whether there is a seat. False without logind.
  public func hasSeat() async -> Bool {
    let seats = try? await manager("ListSeats").first?.array
    return seats.map { !$0.isEmpty } ?? false
  }

  /// What this machine is used for now.
  public enum Use: Sendable, Equatable {
    /// The user has a session at a seat that is active and not locked.
    case inUse
    case locked
    /// No such session is the active one.
    case away
    /// There is no logind.
    case unknown
  }

  public func use() async -> Use {
    guard let sessions = try? await manager("ListSessions").first?.array else { return .unknown }
    var use = Use.away
    // (id, user, name, seat, path)
    for session in sessions {
      guard let fields = session.fields, fields.count == 5, fields[1].int == Int64(user),
        fields[3].text?.isEmpty == false,
        let path = fields[4].text, let bus = try? await systemBus.bus(),
        let found = try? await bus.properties(
          Self.service, path, "org.freedesktop.login1.Session", timeout: Self.patience)
      else { continue }
      guard found["Active"]?.bool == true, found["Remote"]?.bool != true, found["Class"]?.text ?? "user" == "user"
      else {
        continue
      }
      if found["LockedHint"]?.bool != true { return .inUse }
      use = .locked
    }
    return use
  }

  private func manager(_ member: String) async throws(DBusError) -> [DBusValue] {
    try await systemBus.bus().call(
      Self.service, "/org/freedesktop/login1", "org.freedesktop.login1.Manager", member, timeout: Self.patience,
      starts: false)
  }
}
