/// Crypto: Ed25519, SHA-256, random bytes and base64, all by OpenSSL 3, which TLS needs anyway.
import COpenSSL

/// A failure inside OpenSSL, or a key that is none.
public struct CryptoError: Error, Sendable, Equatable, CustomStringConvertible {
  public let description: String
  public init(_ description: String) { self.description = description }
}

/// SHA-256 of `bytes`: 32 bytes.
public func sha256(_ bytes: [UInt8]) -> [UInt8] {
  var digest = [UInt8](repeating: 0, count: 32)
  var count: UInt32 = 0
  let code = EVP_Digest(bytes, bytes.count, &digest, &count, EVP_sha256(), nil)
  precondition(code == 1 && count == 32, "OpenSSL has no SHA-256")
  return digest
}

/// Random values from OpenSSL's generator.
public enum Random {
  public static func bytes(_ count: Int) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: count)
    precondition(RAND_bytes(&bytes, Int32(count)) == 1, "the system has no randomness")
    return bytes
  }

  /// A version 4 UUID in small letters.
  public static func uuid() -> String {
    var raw = bytes(16)
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    let digits = Array("0123456789abcdef".utf8)
    var out: [UInt8] = []
    for (index, byte) in raw.enumerated() {
      if index == 4 || index == 6 || index == 8 || index == 10 { out.append(UInt8(ascii: "-")) }
      out.append(digits[Int(byte >> 4)])
      out.append(digits[Int(byte & 15)])
    }
    return String(decoding: out, as: UTF8.self)
  }

  /// A token of 32 random bytes as base64url: 43 characters.
  public static func token() -> String { Base64.encodeURL(bytes(32)) }
}
