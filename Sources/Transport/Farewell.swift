import System

/// The end of a connection: the rest of the outbox, the end of writing, then the peer's own end awaited. Closing a socket with
/// unread bytes resets the connection, and the peer would lose the last words.
// @unchecked Sendable: used on its loop's thread only.
final class Farewell: @unchecked Sendable {
  private let channel: Channel
  private let loop: EventLoop
  private var outbox: Outbox
  private var token: EventLoop.Token?
  private var timer: EventLoop.Token?
  private var hasEndedWriting = false

  init(_ channel: Channel, _ outbox: Outbox, loop: EventLoop) {
    self.channel = channel
    self.outbox = outbox
    self.loop = loop
  }

  /// The loop holds it until it has ended.
  func begin(_ limit: Duration) {
    timer = loop.after(limit) { self.end() }
    step()
  }

  private func end() {
    if let token { loop.unwatch(token) }
    if let timer { loop.cancel(timer) }
    token = nil
    timer = nil
    channel.close()
  }

  private func step() {
    if timer == nil { return }
    var needsWrite = false
    while !outbox.isEmpty {
      guard case .done(let count) = outbox.withNext(channel.write) else {
        needsWrite = true
        break
      }
      _ = outbox.advance(count)
    }
    if outbox.isEmpty && !hasEndedWriting {
      hasEndedWriting = true
      channel.endWriting()
    }
    for _ in 0..<16 {
      switch channel.read(loop.scratch) {
      case .done: continue
      case .wantsRead, .wantsWrite: return watch(needsWrite)
      case .ended, .failed: return end()
      }
    }
    // It is still talking, which it may until the limit.
    loop.perform { self.step() }
  }

  private func watch(_ needsWrite: Bool) {
    let events: EventLoop.Events = needsWrite ? [.readable, .writable] : .readable
    if let token {
      loop.rewatch(token, events)
    } else {
      token = loop.watch(channel.descriptor, events) { _ in self.step() }
    }
  }
}
