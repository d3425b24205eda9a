import GatewayProtocol

/// Operator scopes: which cover which (protocol §5.2, §6.7).
enum Scope {
  static let admin = "operator.admin"
  static let read = "operator.read"
  static let write = "operator.write"
  static let pairing = "operator.pairing"
  static let approvals = "operator.approvals"
  static let talkSecrets = "operator.talk.secrets"

  /// `admin` covers every operator scope, `write` covers `read`, others only themselves.
  static func covers(_ held: some Collection<String>, _ wanted: String) -> Bool {
    held.contains(wanted) || held.contains(admin) && wanted.hasPrefix("operator.")
      || held.contains(write) && wanted == read
  }

  static func covers(_ held: some Collection<String>, all wanted: some Sequence<String>) -> Bool {
    wanted.allSatisfy { covers(held, $0) }
  }

  /// As they are kept with a token: what is implied added, sorted.
  static func normalised(_ scopes: some Sequence<String>) -> [String] {
    var set = Set(scopes)
    if set.contains(admin) { set.formUnion([read, write]) }
    if set.contains(write) { set.insert(read) }
    return set.sorted()
  }

  /// What a caller without `wanted` is told (§2.4).
  static func missing(_ wanted: String, of required: [String]) -> WireError {
    WireError(
      code: "INVALID_REQUEST", message: "missing scope: \(wanted)",
      details: ["code": "MISSING_SCOPE", "missingScope": .string(wanted), "requiredScopes": .strings(required)])
  }

  /// Throws `missing` for the first of `required` that `held` does not cover.
  static func demand(_ required: [String], of held: [String]) throws(WireError) {
    if let wanted = required.first(where: { !covers(held, $0) }) { throw missing(wanted, of: required) }
  }
}
