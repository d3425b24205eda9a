import CLinux
import Glibc
import System

/// The service manager's end of sd_notify: hears when a program says READY=1.
final class NotifySocket: Sendable {
  let path: String
  private let descriptor: Int32

  init(in folder: String) throws {
    path = folder + "/notify"
    descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    let bytes = Array(path.utf8)
    guard descriptor >= 0, bytes.count < MemoryLayout.size(ofValue: address.sun_path) else {
      throw BenchError("no socket for sd_notify")
    }
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
    let bound = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    guard bound == 0 else { throw BenchError("\(path) can't be bound: \(errno)") }
    var limit = timeval(tv_sec: 20, tv_usec: 0)
    setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
  }

  deinit {
    close(descriptor)
    unlink(path)
  }

  /// Waits for READY=1, at most 20 s from the last message. Blocks.
  func awaitReady() throws {
    var bytes = [UInt8](repeating: 0, count: 4096)
    while true {
      let count = recv(descriptor, &bytes, bytes.count, 0)
      if count < 0 { throw BenchError("the program did not say that it is ready") }
      let text = String(decoding: bytes[0..<count], as: UTF8.self)
      if text.split(separator: "\n").contains("READY=1") { return }
    }
  }
}
