import Crypto
import GatewayProtocol
import Glibc
import System

/// Who this device is to every gateway: an Ed25519 key that is made once (protocol §4.1).
public struct DeviceIdentity: Sendable {
  private let key: SigningKey
  /// Lower-case hex SHA-256 of the raw public key: 64 digits. Also the node id.
  public let id: String
  /// Milliseconds since 1970.
  public let createdAtMs: Int64

  /// The raw public key, 32 bytes.
  public var publicKey: [UInt8] { key.publicKey }

  /// The identity of a 32-byte seed. Throws `LinkError.identityDamaged` when OpenSSL refuses it.
  public init(seed: [UInt8], createdAtMs: Int64) throws(LinkError) {
    do { key = try SigningKey(seed: seed) } catch {
      throw LinkError(.identityDamaged, "The device key can't be used: \(error).")
    }
    id = hexadecimal(sha256(key.publicKey))
    self.createdAtMs = createdAtMs
  }

  /// The 64-byte signature of `text`.
  public func sign(_ text: String) throws(LinkError) -> [UInt8] {
    do { return try key.sign(Array(text.utf8)) } catch {
      throw LinkError(.identityDamaged, "The device key can't sign: \(error).")
    }
  }

  /// Reads the identity, or makes it at the first start. A crash at any moment leaves either no identity or a whole one, and two
  /// programs that start at once get the same.
  ///
  /// A damaged file is set aside and the start refused, also the next time: a new identity would lose every pairing, so only a
  /// person may ask for one.
  public static func loadOrCreate(in state: StateFolder) throws(LinkError) -> DeviceIdentity {
    if let identity = try load(from: state) {
      removeLeftovers(in: state)
      return identity
    }
    try refuseWhileDamaged(in: state)
    let created = try DeviceIdentity(seed: Random.bytes(32), createdAtMs: WallClock.milliseconds())
    let fresh = "\(state.path)/\(freshPrefix)\(getpid())-\(hexadecimal(Random.bytes(4)))"
    do { try Files.writeAtomically(created.encoded(), to: fresh) } catch {
      // Another program that was faster may have removed it as a leftover.
      if let identity = try load(from: state) { return identity }
      throw StateFolder.unusable(fresh, error)
    }
    defer { unlink(fresh) }
    // link(2) and not rename(2): it fails when another program was faster, whose identity then counts.
    let failure = link(fresh, state.identity) == 0 ? nil : SystemError("link \(state.identity)", code: errno)
    Files.syncFolder(of: state.identity)
    guard let identity = try load(from: state) else {
      throw StateFolder.unusable(state.identity, failure ?? SystemError("open \(state.identity)", code: ENOENT))
    }
    return identity
  }

  private static let freshPrefix = "identity.json.fresh-"

  /// Keys that were made and never used, by a start that was killed.
  private static func removeLeftovers(in state: StateFolder) {
    for name in Files.list(state.path) where name.hasPrefix(freshPrefix) { unlink(state.path + "/" + name) }
  }

  /// The stored identity; nil when there is none yet.
  public static func load(from state: StateFolder) throws(LinkError) -> DeviceIdentity? {
    let bytes: [UInt8]
    do { bytes = try Files.read(state.identity, limit: 64 << 10) } catch {
      if error.code == ENOENT { return nil }
      if error.code == EFBIG { throw damaged(state, "it is far too long") }
      throw StateFolder.unusable(state.identity, error)
    }
    guard let json = try? JSON(parsing: bytes) else { throw damaged(state, "it is no JSON") }
    guard let seed = json["seed"]?.string.flatMap({ Base64.decode($0) }), seed.count == 32 else {
      throw damaged(state, "it holds no key")
    }
    let identity = try DeviceIdentity(seed: seed, createdAtMs: json["createdAtMs"]?.int ?? 0)
    guard json["deviceId"]?.string == identity.id else {
      throw damaged(state, "key and device id don't belong together")
    }
    return identity
  }

  func encoded() -> [UInt8] {
    let json: JSON = [
      "version": 1, "deviceId": .string(id), "seed": .string(Base64.encodeURL(key.seed)),
      "createdAtMs": .int(createdAtMs),
    ]
    return json.encoded() + [UInt8(ascii: "\n")]
  }

  private static func damaged(_ state: StateFolder, _ why: String) -> LinkError {
    let aside = Files.setAside(state.identity) ?? state.identity
    return LinkError(
      .identityDamaged, "This device's identity is damaged (\(why)); the file is kept as \(aside).",
      remedy: remedy(state, aside))
  }

  private static func refuseWhileDamaged(in state: StateFolder) throws(LinkError) {
    let prefix = "identity.json.damaged-"
    guard let name = Files.list(state.path).last(where: { $0.hasPrefix(prefix) }) else { return }
    let aside = state.path + "/" + name
    throw LinkError(
      .identityDamaged, "This device's identity was found damaged and is kept as \(aside).",
      remedy: remedy(state, aside))
  }

  private static func remedy(_ state: StateFolder, _ aside: String) -> String {
    "Put a backup back as \(state.identity); or become a new device, which every gateway has to approve anew: rm '\(aside)'"
  }
}
