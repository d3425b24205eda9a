import System

/// One WebSocket, client or server side, from its upgrade to its end. Pinned to its loop.
///
/// The socket is dropped when nobody holds it any more. Calls are safe to cancel: the caller gets `Closure.cancelled` at once and
/// the socket stays as it was.
public actor WebSocket {
  public nonisolated let loop: EventLoop
  public nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
  /// SHA-256 of the server's certificate; on the client side over TLS.
  public nonisolated let peerFingerprint: [UInt8]?
  /// What the client asked for; on the server side.
  public nonisolated let request: UpgradeRequest?

  /// A send that would leave more than this unsent throws `Closure.tooMuchUnsent`, except for one message alone.
  public static let mostUnsent = 64 << 20
  /// Reading pauses while more than this lies unread.
  private static let mostUnread = (messages: 64, bytes: 8 << 20)
  /// For the peer's side of a closing, and then for its end of the connection.
  private static let closingLimit = Duration.seconds(2)

  private enum Phase {
    case open
    /// Our close frame is out; this is how it ends once the peer's has come.
    case closing(Closure)
    case closed(Closure)
  }

  /// What is still said before the connection ends.
  private enum Farewell {
    /// Nothing: it ends at once.
    case none
    /// What waits to be sent.
    case rest
    /// That, and a close frame.
    case close(UInt16, String)
  }

  let stream: ByteStream
  let encoder: FrameEncoder
  private var decoder: FrameDecoder
  private var phase = Phase.open
  var inbox = Inbox()
  private let receivers: Waiters<Message>
  private let senders: Waiters<Void>
  private let closers: Waiters<Void>
  private let pings: Waiters<Void>
  private var closingTimer: EventLoop.Token?
  private var delivery: Delivery?
  private var isDelivering = false

  init(
    _ channel: Channel, loop: EventLoop, isClient: Bool, maxMessage: Int, fingerprint: [UInt8]? = nil,
    request: UpgradeRequest? = nil
  ) {
    self.loop = loop
    stream = ByteStream(channel, loop: loop)
    encoder = FrameEncoder(masks: isClient)
    decoder = FrameDecoder(expectsMask: !isClient, maxMessage: maxMessage)
    receivers = Waiters(loop: loop)
    senders = Waiters(loop: loop)
    closers = Waiters(loop: loop)
    pings = Waiters(loop: loop)
    peerFingerprint = fingerprint
    self.request = request
  }

  // Not `isolated deinit`: with optimisation, Swift 6.3 ends with “circular reference” in modules that use such an actor.
  deinit { loop.perform { [stream] in stream.drop() } }

  /// Frames flow from now on; `early` came together with the upgrade.
  func start(early: [UInt8]) {
    stream.start(
      received: { [weak self] input in self?.assumeIsolated { $0.take(input) } },
      sent: { [weak self] ticket in self?.assumeIsolated { $0.senders.resume(ticket, .success(())) } })
    if !early.isEmpty { early.withUnsafeBytes { take(.bytes($0)) } }
  }

  // MARK: Sending

  /// Sends one message and returns when its bytes are in the kernel. Text must be UTF-8. Messages go out in the order of calls.
  public func send(_ bytes: [UInt8], text: Bool = true) async throws(Closure) {
    try throwIfEnding()
    if stream.unsent > 0 && stream.unsent + bytes.count > Self.mostUnsent { throw .tooMuchUnsent }
    if Task.isCancelled { throw .cancelled }
    let ticket = senders.newTicket()
    let encoder = encoder
    if stream.write(ticket: ticket, { encoder.append(text ? .text : .binary, bytes, to: &$0) }) { return }
    try throwIfEnding()
    try await senders.wait(senders.place(ticket), on: self)
  }

  /// Bytes that are not in the kernel yet: grows while the peer reads too slowly.
  public var bufferedBytes: Int { stream.unsent }

  // MARK: Receiving

  /// The next message. What came before the end is delivered before the end is thrown. One reader at a time is meant; several
  /// take turns.
  ///
  /// While nobody receives, reading stops after 64 messages or 8 MiB, and then pongs and the peer's close are not seen either.
  public func receive() async throws(Closure) -> Message {
    if let message = inbox.take() {
      resumeReading()
      return message
    }
    if case .closed(let closure) = phase { throw closure }
    return try await receivers.wait(receivers.place(), on: self)
  }

  /// What becomes of a message that was handed over.
  public enum Taken: Sendable {
    /// The next one may come.
    case wholly
    /// The next one waits until `goOn()`.
    case andHold
  }

  /// Who is handed each message as it comes.
  private struct Delivery {
    let take: @Sendable (Message) -> Taken
    let end: CheckedContinuation<Closure, Never>
    var isHeld = false
  }

  /// Hands each message to `take`, on the loop and in order, until the socket ends, and returns how; `.cancelled` leaves the socket as it
  /// was. In place of `receive()`, by one owner, once: a task that waits is resumed by way of the runtime's threads (Swift 6.3), which
  /// is two changes of thread for a message. Messages that are held wait as they do for a reader, and the end behind them.
  public func deliver(to take: @escaping @Sendable (Message) -> Taken) async -> Closure {
    await withTaskCancellationHandler {
      await withCheckedContinuation { end in
        if Task.isCancelled { return end.resume(returning: .cancelled) }
        precondition(delivery == nil, "a socket delivers to one")
        delivery = Delivery(take: take, end: end)
        deliver()
      }
    } onCancel: {
      loop.perform { [weak self] in self?.assumeIsolated { $0.endDelivery(.cancelled) } }
    }
  }

  /// What was held may come.
  public func goOn() {
    delivery?.isHeld = false
    deliver()
  }

  private func deliver() {
    // An owner that goes on while it is handed a message is in the loop below already.
    if isDelivering { return }
    isDelivering = true
    defer { isDelivering = false }
    while let delivery, !delivery.isHeld, let message = inbox.take() {
      resumeReading()
      // Beforehand, for `take` may already go on.
      self.delivery?.isHeld = true
      if delivery.take(message) == .wholly { self.delivery?.isHeld = false }
    }
    if case .closed(let closure) = phase, delivery?.isHeld == false { endDelivery(closure) }
  }

  private func deliverSoon() {
    if delivery != nil { loop.perform { [weak self] in self?.assumeIsolated { $0.deliver() } } }
  }

  private func endDelivery(_ closure: Closure) {
    delivery?.end.resume(returning: closure)
    delivery = nil
  }

  /// The longest message taken from now on, in bytes.
  public func setMaxMessage(_ bytes: Int) { decoder.maxMessage = bytes }

  /// When bytes last came, on the clock of `Monotonic.now()`.
  public var lastActivity: Duration { .nanoseconds(Int64(stream.lastInput)) }

  // MARK: Keeping alive

  /// Sends a ping and waits for its pong. Without one `timeout` after the ping has left, the socket is dropped and the closure thrown. While
  /// a long message is on its way before the ping, it is dropped only when nothing of that could be written for as long.
  public func ping(timeout: Duration) async throws(Closure) {
    try throwIfEnding()
    let ticket = pings.place()
    let payload = (0..<8).map { UInt8(truncatingIfNeeded: ticket >> UInt64(56 - 8 * $0)) }
    let encoder = encoder
    let departure = senders.newTicket()
    if !stream.write(ticket: departure, { encoder.append(.ping, payload, to: &$0) }) {
      do throws(Closure) {
        try throwIfEnding()
        let watch = OutputWatch()
        watchOutput(timeout, watch)
        defer { if let timer = watch.timer { loop.cancel(timer) } }
        try await senders.wait(senders.place(departure), on: self)
      } catch {
        pings.leave(ticket)
        throw error
      }
    }
    let timer = loop.after(timeout) { [weak self] in
      self?.assumeIsolated { $0.drop("there was no pong within \(timeout.inSeconds) s") }
    }
    defer { loop.cancel(timer) }
    try await pings.wait(ticket, on: self)
  }

  // @unchecked Sendable: used on the loop's thread only.
  private final class OutputWatch: @unchecked Sendable { var timer: EventLoop.Token? }

  /// Drops the socket when nothing is written for `limit`, again and again until the watch's timer is cancelled.
  private func watchOutput(_ limit: Duration, _ watch: OutputWatch) {
    let before = stream.lastOutput
    watch.timer = loop.after(limit) { [weak self] in
      self?.assumeIsolated {
        if $0.stream.lastOutput == before {
          $0.drop("nothing could be sent for \(limit.inSeconds) s")
        } else {
          $0.watchOutput(limit, watch)
        }
      }
    }
  }

  // MARK: Ending

  /// Says goodbye: sends a close frame, waits at most 2 s for the peer's, and ends the connection. Returns at once when it has
  /// ended already. The reason is cut to 123 bytes.
  public func close(code: UInt16 = 1000, reason: String = "") async {
    switch phase {
    case .closed: return
    case .closing: break
    case .open:
      phase = .closing(Closure(code: code, reason: reason, isClean: true))
      let encoder = encoder
      _ = stream.write { encoder.appendClose(code, reason, to: &$0) }
      closingTimer = loop.after(Self.closingLimit) { [weak self] in
        self?.assumeIsolated { $0.end(Closure(code: code, reason: reason, isClean: false), farewell: .none) }
      }
    }
    if case .closed = phase { return }
    try? await closers.wait(closers.place(), on: self)
  }

  /// Ends it at once, without a close frame; `why` becomes the reason of a 1006.
  public func drop(_ why: String) {
    guard case .closed = phase else { return end(.lost(why), farewell: .none) }
  }

  /// Whether it has ended; what came before may still be received.
  public var hasEnded: Bool {
    if case .closed = phase { return true }
    return false
  }

  func throwIfEnding() throws(Closure) {
    switch phase {
    case .open: return
    case .closing(let closure), .closed(let closure): throw closure
    }
  }

  private func end(_ closure: Closure, farewell: Farewell) {
    if case .closed = phase { return }
    phase = .closed(closure)
    if let closingTimer { loop.cancel(closingTimer) }
    closingTimer = nil
    let encoder = encoder
    switch farewell {
    case .none: stream.drop()
    case .rest: stream.end(within: Self.closingLimit) { _ in }
    case .close(let code, let reason):
      stream.end(within: Self.closingLimit) { encoder.appendClose(code, reason, to: &$0) }
    }
    // This may be in the midst of bytes that are taken apart, or of what the owner does.
    deliverSoon()
    receivers.resumeAll(.failure(closure))
    senders.resumeAll(.failure(closure))
    pings.resumeAll(.failure(closure))
    closers.resumeAll(.success(()))
  }

  // MARK: What arrives

  private func take(_ input: ByteStream.Input) {
    switch input {
    case .bytes(let bytes):
      do throws(FrameDecoder.Violation) {
        try decoder.feed(bytes) { take($0) }
        if inbox.count < Self.mostUnread.messages && inbox.bytes < Self.mostUnread.bytes { return deliver() }
        // A peer that floods us leaves the others on this loop their turn.
        stream.wantsInput = false
        deliverSoon()
      } catch {
        let closure = Closure(code: error.code, reason: error.what, isClean: false)
        end(closure, farewell: .close(error.code, error.what))
      }
    case .ended: end(.lost("the connection ended without a goodbye"), farewell: .none)
    case .failed(let reason), .unwritable(let reason): end(.lost(reason), farewell: .none)
    }
  }

  private func take(_ event: FrameDecoder.Event) {
    // What follows a close frame is nothing (RFC 6455 §5.5.1).
    if case .closed = phase { return }
    switch event {
    case .message(let message):
      if receivers.resumeFirst(.success(message)) { return }
      inbox.add(message)
    case .ping(let payload):
      guard case .open = phase else { return }
      // A peer that pings without reading gets no more pongs than it takes.
      if stream.unsent > Self.mostUnsent { return }
      let encoder = encoder
      _ = stream.write { encoder.append(.pong, payload, to: &$0) }
    case .pong(let payload):
      guard payload.count == 8 else { return }
      // One pong may answer several pings: the last of them (§5.5.3).
      pings.resume(upTo: payload.reduce(0) { $0 << 8 | UInt64($1) }, .success(()))
    case .close(let code, let reason):
      if case .closing(let closure) = phase {
        end(closure, farewell: .rest)
      } else {
        end(Closure(code: code, reason: reason, isClean: true), farewell: .close(code, ""))
      }
    }
  }

  private func resumeReading() {
    if inbox.count <= Self.mostUnread.messages / 2 && inbox.bytes <= Self.mostUnread.bytes / 2 {
      stream.wantsInput = true
    }
  }
}
