import Glibc
import System

/// Moves bytes between a channel and the actor that owns it: reads when there is something and the owner wants it, writes what
/// waits when there is room.
// @unchecked Sendable: used on its loop's thread only, by an actor that is pinned to the loop.
final class ByteStream: @unchecked Sendable {
  /// What arrives.
  // @unchecked Sendable: it goes from the loop's handler into an actor on the same thread, and the bytes are used at once.
  enum Input: @unchecked Sendable {
    /// Valid during the call only.
    case bytes(UnsafeRawBufferPointer)
    /// The peer has ended its side, or the whole connection.
    case ended
    case failed(String)
    /// Nothing can be written any more, and all that the peer said before has been read.
    case unwritable(String)
  }

  /// Reading pauses while this is false.
  var wantsInput = true {
    didSet {
      if wantsInput == oldValue { return }
      update()
      // Bytes may already wait inside TLS, where poll(2) can't see them.
      if wantsInput { readSoon() }
    }
  }
  /// When bytes last came, in nanoseconds of the monotonic clock.
  private(set) var lastInput = Monotonic.nanoseconds()
  /// When bytes last went into the kernel, on the same clock.
  private(set) var lastOutput = Monotonic.nanoseconds()
  private(set) var hasEnded = false

  private let channel: Channel
  private let loop: EventLoop
  private var outbox = Outbox()
  private var token: EventLoop.Token?
  private var interest: EventLoop.Events = []
  /// TLS may have to write in order to read, and the other way round.
  private var readWantsWrite = false
  private var writeWantsRead = false
  private var isUnwritable = false
  private var received: (Input) -> Void = { _ in }
  private var sent: (UInt64) -> Void = { _ in }

  init(_ channel: Channel, loop: EventLoop) {
    self.channel = channel
    self.loop = loop
  }

  /// Begins. `received` is called for what comes, `sent` for each ticket whose bytes are in the kernel.
  func start(received: @escaping (Input) -> Void, sent: @escaping (UInt64) -> Void) {
    self.received = received
    self.sent = sent
    update()
    if channel.isTLS { readSoon() }
  }

  /// Bytes that are not in the kernel yet.
  var unsent: Int { outbox.count }

  /// Lets `append` add bytes and writes what can be written; true when all has gone. Otherwise `ticket`, if there is one, is
  /// reported when these bytes have gone, or never when the stream has ended, which `received` is told.
  func write(ticket: UInt64? = nil, _ append: (inout [UInt8]) -> Void) -> Bool {
    if hasEnded || isUnwritable { return false }
    let wasEmpty = outbox.isEmpty
    outbox.append(append)
    // Behind others it is not its turn yet.
    if wasEmpty { flush() }
    if hasEnded || isUnwritable { return false }
    if outbox.isEmpty { return true }
    if let ticket { outbox.mark(ticket) }
    update()
    return false
  }

  /// Ends it at once; what waits is dropped.
  func drop() {
    if hasEnded { return }
    stop()
    channel.close()
  }

  /// Ends it politely: what waits and then what `append` adds is still written, the peer's end awaited, both within `limit`. The
  /// owner hears nothing more.
  func end(within limit: Duration, _ append: (inout [UInt8]) -> Void) {
    if hasEnded { return }
    stop()
    outbox.append(append)
    Farewell(channel, outbox, loop: loop).begin(limit)
    outbox = Outbox()
  }

  private func stop() {
    hasEnded = true
    if let token { loop.unwatch(token) }
    token = nil
    received = { _ in }
    sent = { _ in }
  }

  // MARK: Readiness

  private func update() {
    if hasEnded { return }
    var wanted: EventLoop.Events = []
    if wantsInput || writeWantsRead { wanted.insert(.readable) }
    if !outbox.isEmpty && !writeWantsRead || readWantsWrite { wanted.insert(.writable) }
    if wanted == interest && token != nil { return }
    interest = wanted
    if wanted.isEmpty {
      // Not even watched: a connection that hung up would wake the loop again and again.
      if let token { loop.unwatch(token) }
      token = nil
    } else if let token {
      loop.rewatch(token, wanted)
    } else {
      token = loop.watch(channel.descriptor, wanted) { [weak self] _ in self?.ready() }
    }
  }

  private func ready() {
    if !outbox.isEmpty { flush() }
    if wantsInput { read() }
    update()
  }

  private func readSoon() {
    loop.perform { [weak self] in
      self?.read()
      self?.update()
    }
  }

  private func read() {
    readWantsWrite = false
    // A peer that never stops sending leaves the others their turn after this.
    for _ in 0..<16 {
      if hasEnded || !wantsInput { return }
      switch channel.read(loop.scratch) {
      case .done(let count):
        lastInput = Monotonic.nanoseconds()
        received(.bytes(UnsafeRawBufferPointer(rebasing: loop.scratch[0..<count])))
      case .wantsRead: return
      case .wantsWrite:
        readWantsWrite = true
        return
      case .ended: return received(.ended)
      case .failed(let reason): return received(.failed(reason))
      }
    }
    readSoon()
  }

  private func flush() {
    writeWantsRead = false
    for _ in 0..<16 {
      if hasEnded || outbox.isEmpty { return }
      switch outbox.withNext(channel.write) {
      case .done(let count):
        lastOutput = Monotonic.nanoseconds()
        for ticket in outbox.advance(count) { sent(ticket) }
      case .wantsWrite: return
      case .wantsRead:
        writeWantsRead = true
        return
      case .ended: return stopWriting("the connection ended")
      case .failed(let reason): return stopWriting(reason)
      }
    }
  }

  private func stopWriting(_ reason: String) {
    isUnwritable = true
    _ = outbox.clear()
    loop.perform { [weak self] in
      self?.read()
      self?.received(.unwritable(reason))
    }
  }
}
