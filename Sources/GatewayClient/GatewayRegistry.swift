import GatewayProtocol
import Glibc
import System
import Transport

/// The gateways this device knows, each in a folder of its own in the state folder, so that forgetting one takes everything of it
/// and nothing of another. Files are replaced atomically and are 0600.
///
/// Nothing is held in memory: another `talknode` may have changed the files, and they are read only when a socket connects. A damaged
/// file is set aside with a warning, and the work goes on without what was in it.
public actor GatewayRegistry {
  private let state: StateFolder

  public init(state: StateFolder) { self.state = state }

  // MARK: Gateways

  /// All gateways, oldest first.
  public func list() -> [GatewayRecord] {
    let active = activeID()
    var records: [GatewayRecord] = []
    for name in Files.list(state.gateways) {
      guard var record = record(inFolder: state.gateways + "/" + name) else { continue }
      record.isActive = record.id == active
      records.append(record)
    }
    return records.sorted { ($0.addedAtMs, $0.id) < ($1.addedAtMs, $1.id) }
  }

  /// The gateway that the daemon connects to; nil when there is none.
  public func active() -> GatewayRecord? {
    guard let id = activeID() else { return nil }
    return gateway(id)
  }

  /// The gateway with this id; nil when it is not known.
  public func gateway(_ id: String) -> GatewayRecord? {
    guard var record = record(inFolder: state.gateway(id)), record.id == id else { return nil }
    record.isActive = activeID() == id
    return record
  }

  /// Stores what an offer says and makes the gateway the active one. A gateway that is known keeps its device tokens, and its pins
  /// unless the offer brings its own. `endpoint` is the route that answered. With `clearingRemoval` a gateway that had removed this
  /// device, or revoked a token of it, is asked again: only a person's own act may do that.
  @discardableResult
  public func add(
    _ offer: GatewayOffer, endpoint: Endpoint? = nil, nowMs: Int64 = WallClock.milliseconds(),
    clearingRemoval: Bool = true
  ) throws(LinkError) -> GatewayRecord {
    let id = GatewayRecord.id(of: offer.primary)
    let known = gateway(id)
    var record = GatewayRecord(
      name: offer.name ?? known?.name, primary: offer.primary, endpoint: endpoint ?? offer.primary,
      routes: offer.routes, pins: known?.pins ?? [:], addedAtMs: known?.addedAtMs ?? nowMs, isActive: true)
    if let fingerprint = offer.fingerprint { record.pins[offer.primary.authority] = fingerprint }
    var credentials = try storedCredentials(for: id)
    if offer.token != nil || offer.password != nil || offer.bootstrapToken != nil {
      // New credentials replace the old ones together: an old shared token would be sent first and hide a new code.
      credentials.sharedToken = offer.token
      credentials.password = offer.password
      if credentials.bootstrapToken != offer.bootstrapToken {
        credentials.bootstrapToken = offer.bootstrapToken
        credentials.bootstrappedRoles = []
      }
    }
    if clearingRemoval {
      credentials.removedAtMs = nil
      credentials.revokedRoles = []
    }
    try makeFolders(id)
    try write(credentials.json, to: state.gateway(id) + "/credentials.json")
    try write(record.json, to: state.gateway(id) + "/gateway.json")
    try use(id)
    return record
  }

  /// Makes a known gateway the active one.
  public func use(_ id: String) throws(LinkError) {
    guard record(inFolder: state.gateway(id)) != nil else { throw Self.unknown(id) }
    try write(["version": 1, "id": .string(id)], to: state.active)
  }

  /// Removes everything of one gateway. When it was the active one, none is afterwards.
  public func forget(_ id: String) throws(LinkError) {
    let folder = state.gateway(id)
    guard Files.exists(folder) else { throw Self.unknown(id) }
    let wasActive = activeID() == id
    do {
      try Files.removeTree(folder)
      if wasActive { try Files.removeTree(state.active) }
    } catch {
      throw StateFolder.unusable(folder, error)
    }
  }

  /// Accepts a certificate for one of a gateway's routes.
  public func setPin(_ pin: [UInt8]?, for endpoint: Endpoint, of id: String) throws(LinkError) {
    guard var record = gateway(id) else { throw Self.unknown(id) }
    record.pins[endpoint.authority] = pin
    try write(record.json, to: state.gateway(id) + "/gateway.json")
  }

  /// Notes which route works.
  public func setEndpoint(_ endpoint: Endpoint, of id: String) throws(LinkError) {
    guard var record = gateway(id) else { throw Self.unknown(id) }
    if record.endpoint == endpoint { return }
    record.endpoint = endpoint
    try write(record.json, to: state.gateway(id) + "/gateway.json")
  }

  // MARK: Credentials

  /// What may be shown to a gateway; empty when nothing is stored, or it can't be read.
  public func credentials(for id: String) -> Credentials { (try? storedCredentials(for: id)) ?? Credentials() }

  /// The same, but throws `LinkError.state` for what is there and can't be read: it must be neither taken for nothing nor written over.
  func storedCredentials(for id: String) throws(LinkError) -> Credentials {
    let path = state.gateway(id) + "/credentials.json"
    if let stored = read(path, what: "the credentials of \(id)", Credentials.init(json:)) { return stored }
    // What was damaged has been set aside by now.
    if Files.exists(path) {
      throw LinkError(.state, "The credentials of \(id) can't be read.", remedy: "Make \(path) readable for this user")
    }
    return Credentials()
  }

  /// Changes what is stored for a gateway and returns the new state. A gateway that was forgotten meanwhile stays forgotten.
  @discardableResult
  public func updateCredentials(
    of id: String, _ change: @Sendable (inout Credentials) -> Void
  ) throws(LinkError) -> Credentials {
    let old = try storedCredentials(for: id)
    var new = old
    change(&new)
    guard new != old, Files.exists(state.gateway(id)) else { return new }
    try write(new.json, to: state.gateway(id) + "/credentials.json")
    return new
  }

  // MARK: The surface that was last seen approved

  /// A digest of the surface that the gateway was last seen to have approved; nil when it never was.
  func approvedSurface(of id: String) -> String? {
    read(state.gateway(id) + "/surface.json", what: "the surface of \(id)") { $0["approved"]?.string }
  }

  func setApprovedSurface(_ digest: String, of id: String) throws(LinkError) {
    guard Files.exists(state.gateway(id)), approvedSurface(of: id) != digest else { return }
    try write(["version": 1, "approved": .string(digest)], to: state.gateway(id) + "/surface.json")
  }

  // MARK: Files

  private func activeID() -> String? { read(state.active, what: "the active gateway") { $0["id"]?.string } }

  private func record(inFolder folder: String) -> GatewayRecord? {
    read(folder + "/gateway.json", what: "a gateway", GatewayRecord.init(json:))
  }

  private func read<Value>(_ path: String, what: String, _ decode: (JSON) -> Value?) -> Value? {
    let bytes: [UInt8]
    do { bytes = try Files.read(path, limit: 1 << 20) } catch {
      if error.code == ENOENT || error.code == ENOTDIR { return nil }
      Log.once("registry \(path)", .warning, "\(path) can't be read: \(error.reason).")
      return nil
    }
    if let json = try? JSON(parsing: bytes), let value = decode(json) { return value }
    let aside = Files.setAside(path)
    Log.warning(
      "\(path) (\(what)) is damaged\(aside.map { " and was set aside as \($0)" } ?? ""). What was in it is missing until the "
        + "file is put back or the gateway is paired again: talknode pair CODE")
    return nil
  }

  private func makeFolders(_ id: String) throws(LinkError) {
    do { try Files.makeFolder(state.gateway(id)) } catch { throw StateFolder.unusable(state.gateway(id), error) }
  }

  private func write(_ json: JSON, to path: String) throws(LinkError) {
    do { try Files.writeAtomically(json.encoded() + [UInt8(ascii: "\n")], to: path) } catch {
      throw StateFolder.unusable(path, error)
    }
  }

  private static func unknown(_ id: String) -> LinkError {
    LinkError(.unknownGateway, "No gateway \(id) is known.", remedy: "talknode gateways list")
  }
}
