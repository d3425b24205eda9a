import Crypto
import Glibc
import System

/// The folder that holds who this device is and which gateways it knows. All files in it are 0600, all folders 0700.
public struct StateFolder: Sendable, Equatable {
  /// Without a trailing slash.
  public let path: String

  /// Makes the folder where it is missing. One that others may look into would show them tokens: it is closed to them when it is this
  /// device's or empty. Throws `LinkError.state` when it can't be made, is another user's, or is open and not this device's alone.
  public init(path: String) throws(LinkError) {
    var path = path
    while path.count > 1 && path.hasSuffix("/") { path.removeLast() }
    self.path = path
    do { try Files.makeFolder(path) } catch { throw Self.unusable(path, error) }
    var status = stat()
    if stat(path, &status) != 0 { throw Self.unusable(path, SystemError("stat \(path)", code: errno)) }
    if status.st_uid != geteuid() {
      throw LinkError(
        .state, "The state folder \(path) belongs to another user, who could read this device's key.",
        remedy: Self.another)
    }
    if status.st_mode & 0o077 == 0 { return }
    // Someone's home or /tmp is not to be closed because it was named.
    guard Files.exists(identity) || Files.list(path).isEmpty && status.st_mode & S_ISVTX == 0 else {
      throw LinkError(
        .state, "The folder \(path) is open to others and is not this device's state alone.",
        remedy: "\(Self.another), or close it: chmod 700 '\(path)'")
    }
    if chmod(path, 0o700) != 0 { throw Self.unusable(path, SystemError("chmod \(path)", code: errno)) }
  }

  /// The identity's file.
  public var identity: String { path + "/identity.json" }
  /// The folder of all gateways' folders.
  public var gateways: String { path + "/gateways" }
  /// The file that names the active gateway.
  var active: String { path + "/active-gateway.json" }

  /// The folder of one gateway. Its name can be read by a person, and is unique by a piece of the id's hash.
  public func gateway(_ id: String) -> String {
    var readable = ""
    for scalar in id.unicodeScalars.prefix(80) {
      let isPlain = scalar.isASCII && (scalar.properties.isAlphabetic || scalar.properties.numericType != nil)
      readable.unicodeScalars.append(isPlain || scalar == "." ? scalar : "-")
    }
    while readable.hasPrefix(".") { readable.removeFirst() }
    return gateways + "/" + readable + "-" + hexadecimal(sha256(Array(id.utf8)).prefix(6))
  }

  private static let another = "Choose another folder: --state DIR, after the command"

  static func unusable(_ path: String, _ error: SystemError) -> LinkError {
    LinkError(.state, "\(path) can't be used: \(error.reason).", remedy: another)
  }
}
