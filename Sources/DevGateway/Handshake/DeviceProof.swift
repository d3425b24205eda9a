import Crypto
import GatewayProtocol
import System

/// Whether a connect was signed by the owner of the device's key (protocol §4.3).
enum DeviceProof {
  /// What the client is told; the message is also the close reason.
  struct Failure: Error, Equatable {
    let message: String
    let code: String
    let reason: String

    static let idMismatch = Failure(
      message: "device identity mismatch", code: "DEVICE_AUTH_DEVICE_ID_MISMATCH", reason: "device-id-mismatch")
    static let expired = Failure(
      message: "device signature expired", code: "DEVICE_AUTH_SIGNATURE_EXPIRED", reason: "device-signature-stale")
    static let nonceMissing = Failure(
      message: "device nonce required", code: "DEVICE_AUTH_NONCE_REQUIRED", reason: "device-nonce-missing")
    static let nonceMismatch = Failure(
      message: "device nonce mismatch", code: "DEVICE_AUTH_NONCE_MISMATCH", reason: "device-nonce-mismatch")
    static let signatureInvalid = Failure(
      message: "device signature invalid", code: "DEVICE_AUTH_SIGNATURE_INVALID", reason: "device-signature")
  }

  /// What the gateway goes by.
  struct Rules {
    var nonce: String
    var nowMs: Int64
    var skewMs = ProtocolLimits.signatureSkewMs
    /// In the order tried.
    var versions: [DeviceAuth.Version] = [.v3, .v2]
  }

  /// Returns the raw public key, 32 bytes. The checks come in the order of §4.3; its sixth (`device public key invalid`) never
  /// speaks, because a key that does not decode has failed at the id or at the signature.
  static func check(_ params: ConnectParams, device: ConnectParams.Device, by rules: Rules) throws(Failure) -> [UInt8] {
    guard let key = publicKey(device.publicKey), hexadecimal(sha256(key)) == device.id else { throw .idMismatch }
    if rules.nowMs.distance(to: device.signedAtMs).magnitude > UInt64(rules.skewMs) { throw .expired }
    let nonce = device.nonce.trimmed
    if nonce.isEmpty { throw .nonceMissing }
    if nonce != rules.nonce { throw .nonceMismatch }
    let signed = DeviceAuth(
      deviceID: device.id, clientID: params.client.id, clientMode: params.client.mode, role: params.role,
      scopes: params.scopes, signedAtMs: device.signedAtMs, token: params.auth.signedToken, nonce: nonce,
      platform: params.client.platform, deviceFamily: params.client.deviceFamily ?? "")
    guard let signature = Base64.decode(device.signature) else { throw .signatureInvalid }
    for version in rules.versions
    where SigningKey.verify(signature, of: Array(signed.payload(version).utf8), publicKey: key) { return key }
    throw .signatureInvalid
  }

  /// The raw bytes of a key in base64url, base64 or PEM (SPKI).
  static func publicKey(_ text: String) -> [UInt8]? {
    guard text.contains("-----BEGIN") else { return Base64.decode(text) }
    let body = text.split(whereSeparator: \.isNewline).filter { !$0.contains("-----") }.map { $0.trimmed }.joined()
    let prefix: [UInt8] = [0x30, 0x2A, 0x30, 0x05, 0x06, 0x03, 0x2B, 0x65, 0x70, 0x03, 0x21, 0x00]
    guard let der = Base64.decode(body), der.starts(with: prefix) else { return nil }
    return Array(der.dropFirst(prefix.count))
  }
}
