import CLinux
import GatewayProtocol
import Glibc

/// The file system that a folder lies on. What only root may still use counts as used.
struct StorageFacts: Sendable, Equatable {
  let totalBytes: Int64
  let freeBytes: Int64

  /// nil when it can't be asked.
  init?(path: String) {
    var status = statvfs()
    guard statvfs(path, &status) == 0, status.f_blocks > 0 else { return nil }
    let unit = UInt64(status.f_frsize > 0 ? status.f_frsize : status.f_bsize)
    totalBytes = Int64(clamping: UInt64(status.f_blocks).multipliedClamped(by: unit))
    freeBytes = min(totalBytes, Int64(clamping: UInt64(status.f_bavail).multipliedClamped(by: unit)))
  }

  var json: JSON {
    ["totalBytes": .int(totalBytes), "freeBytes": .int(freeBytes), "usedBytes": .int(totalBytes - freeBytes)]
  }
}

extension UInt64 {
  fileprivate func multipliedClamped(by factor: UInt64) -> UInt64 {
    let (product, overflow) = multipliedReportingOverflow(by: factor)
    return overflow ? .max : product
  }
}
