import COpenSSL

/// An Ed25519 private key (RFC 8032).
// @unchecked Sendable: the OpenSSL key is immutable after init and its functions are thread-safe for reading.
public final class SigningKey: @unchecked Sendable {
  /// The 32 secret bytes from which everything follows.
  public let seed: [UInt8]
  /// The raw public key, 32 bytes.
  public let publicKey: [UInt8]
  private let key: OpaquePointer

  /// A new random key.
  public convenience init() throws(CryptoError) { try self.init(seed: Random.bytes(32)) }

  /// The key of a 32-byte seed.
  public init(seed: [UInt8]) throws(CryptoError) {
    guard seed.count == 32 else { throw CryptoError("a seed has 32 bytes, not \(seed.count)") }
    guard let key = EVP_PKEY_new_raw_private_key_ex(nil, "ED25519", nil, seed, 32) else {
      throw CryptoError("OpenSSL refuses the seed")
    }
    var count = 32
    var publicKey = [UInt8](repeating: 0, count: 32)
    guard EVP_PKEY_get_raw_public_key(key, &publicKey, &count) == 1, count == 32 else {
      EVP_PKEY_free(key)
      throw CryptoError("OpenSSL has no public key")
    }
    self.seed = seed
    self.publicKey = publicKey
    self.key = key
  }

  deinit { EVP_PKEY_free(key) }

  /// The 64-byte signature of `message`.
  public func sign(_ message: [UInt8]) throws(CryptoError) -> [UInt8] {
    guard let context = EVP_MD_CTX_new() else { throw CryptoError("out of memory") }
    defer { EVP_MD_CTX_free(context) }
    var count = 64
    var signature = [UInt8](repeating: 0, count: 64)
    guard EVP_DigestSignInit(context, nil, nil, nil, key) == 1,
      EVP_DigestSign(context, &signature, &count, message, message.count) == 1, count == 64
    else { throw CryptoError("OpenSSL can't sign") }
    return signature
  }

  /// Whether `signature` of `message` was made by the owner of the raw `publicKey`. False for keys and signatures of a wrong size.
  public static func verify(_ signature: [UInt8], of message: [UInt8], publicKey: [UInt8]) -> Bool {
    guard signature.count == 64, publicKey.count == 32,
      let key = EVP_PKEY_new_raw_public_key_ex(nil, "ED25519", nil, publicKey, 32)
    else { return false }
    defer { EVP_PKEY_free(key) }
    guard let context = EVP_MD_CTX_new() else { return false }
    defer { EVP_MD_CTX_free(context) }
    return EVP_DigestVerifyInit(context, nil, nil, nil, key) == 1
      && EVP_DigestVerify(context, signature, signature.count, message, message.count) == 1
  }
}
