import System

/// For a server on the socket's own loop, which sends without waiting and minds `bufferedBytes` itself; and for tests that need a
/// peer which misbehaves below the messages.
extension WebSocket {
  /// Sends one message without waiting for the kernel to take it. Text must be UTF-8. Throws what `send` throws.
  public func post(_ bytes: [UInt8], text: Bool = true) throws(Closure) {
    try throwIfEnding()
    if stream.unsent > 0 && stream.unsent + bytes.count > Self.mostUnsent { throw .tooMuchUnsent }
    let encoder = encoder
    _ = stream.write { encoder.append(text ? .text : .binary, bytes, to: &$0) }
  }

  /// Reads nothing more, so that pings stay unanswered and the peer's close unseen: a half-open socket. Only `drop` ends it.
  public func stall() {
    inbox = Inbox()
    stream.wantsInput = false
  }

  /// Sends bytes as they are, past the framing.
  public func postRaw(_ bytes: [UInt8]) {
    _ = stream.write { $0.append(contentsOf: bytes) }
  }
}
