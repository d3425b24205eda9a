import CLinux
import Glibc
import System

/// One opening of a socket, from nothing to the point where frames may flow: steps that wait for the network one after the
/// other, under one deadline, ended at once by cancellation.
///
/// Each step looks at its state, and pauses until something has changed.
actor Opening {
  nonisolated let loop: EventLoop
  nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

  private var waiter: CheckedContinuation<Void, Never>?
  private var failure: TransportError?
  private var hasSignal = false
  private var deadline: EventLoop.Token?
  private let limit: Duration
  /// For the deadline's message.
  private var step = "nothing yet"

  init(loop: EventLoop, limit: Duration) {
    self.loop = loop
    self.limit = limit
  }

  /// Runs `steps` on the loop until they end, the limit has passed or the caller is cancelled.
  static func run<Value: Sendable>(
    loop: EventLoop, limit: Duration,
    _ steps: @Sendable (isolated Opening) async throws(TransportError) -> Value
  ) async throws(TransportError) -> Value {
    let opening = Opening(loop: loop, limit: limit)
    return try await opening.run(steps)
  }

  private func run<Value: Sendable>(
    _ steps: @Sendable (isolated Opening) async throws(TransportError) -> Value
  ) async throws(TransportError) -> Value {
    deadline = loop.after(limit) { [weak self] in self?.assumeIsolated { $0.expire() } }
    defer { if let deadline { loop.cancel(deadline) } }
    let result: Result<Value, TransportError> = await withTaskCancellationHandler {
      do throws(TransportError) { return .success(try await steps(self)) } catch { return .failure(error) }
    } onCancel: {
      loop.perform { [weak self] in
        self?.assumeIsolated { $0.fail(TransportError(.cancelled, "The connection is no longer wanted.")) }
      }
    }
    return try result.get()
  }

  private func expire() {
    fail(TransportError(.timedOut, "No connection within \(limit.inSeconds) s (waited for \(step))."))
  }

  /// Ends the opening from outside: the step that waits throws `error`, and so does every later one.
  func fail(_ error: TransportError) {
    if failure == nil { failure = error }
    signal()
  }

  // MARK: Waiting

  /// Something that the present step looks at has changed.
  func signal() {
    if let waiter {
      self.waiter = nil
      waiter.resume()
    } else {
      hasSignal = true
    }
  }

  /// Waits for a signal; `step` says for what, to people.
  func pause(_ step: String) async throws(TransportError) {
    if let failure { throw failure }
    self.step = step
    if !hasSignal { await withCheckedContinuation { waiter = $0 } }
    hasSignal = false
    if let failure { throw failure }
  }

  /// Waits until the channel's descriptor is ready.
  func wait(_ channel: Channel, _ events: EventLoop.Events, _ step: String) async throws(TransportError) {
    var isReady = false
    let token = loop.watch(channel.descriptor, events) { [weak self] _ in
      isReady = true
      self?.assumeIsolated { $0.signal() }
    }
    defer { loop.unwatch(token) }
    while !isReady { try await pause(step) }
  }

  /// Waits a while.
  func rest(_ time: Duration, _ step: String) async throws(TransportError) {
    var isOver = false
    let token = loop.after(time) { [weak self] in
      isOver = true
      self?.assumeIsolated { $0.signal() }
    }
    defer { loop.cancel(token) }
    while !isOver { try await pause(step) }
  }

  // MARK: Bytes

  /// Writes all of `bytes`.
  func write(_ bytes: [UInt8], to channel: Channel, _ step: String) async throws(TransportError) {
    var offset = 0
    while offset < bytes.count {
      let transfer = bytes.withUnsafeBytes { channel.write(UnsafeRawBufferPointer(rebasing: $0[offset...])) }
      switch transfer {
      case .done(let count): offset += count
      case .wantsRead: try await wait(channel, .readable, step)
      case .wantsWrite: try await wait(channel, .writable, step)
      case .ended: throw TransportError(.lost, "The connection ended (waited for \(step)).")
      case .failed(let reason): throw TransportError(.lost, "The connection failed (waited for \(step)): \(reason).")
      }
    }
  }

  /// Reads one head and what came with it, or why it is none.
  func readHead(
    _ kind: HTTPHead.Kind, from channel: Channel, _ step: String
  ) async throws(TransportError) -> Result<(head: HTTPHead, rest: [UInt8]), HTTPHead.Malformed> {
    var reader = HTTPHeadReader(kind)
    while true {
      switch channel.read(loop.scratch) {
      case .done(let count):
        do throws(HTTPHead.Malformed) {
          let piece = UnsafeRawBufferPointer(rebasing: loop.scratch[0..<count])
          if let found = try reader.feed(piece) { return .success(found) }
        } catch {
          return .failure(error)
        }
      case .wantsRead: try await wait(channel, .readable, step)
      case .wantsWrite: try await wait(channel, .writable, step)
      case .ended: throw TransportError(.lost, "The connection ended (waited for \(step)).")
      case .failed(let reason): throw TransportError(.lost, "The connection failed (waited for \(step)): \(reason).")
      }
    }
  }

  // MARK: TLS

  /// Brings the TLS handshake to its end, whatever the certificate is.
  func shakeHands(_ channel: Channel, with peer: String) async throws(TransportError) {
    let step = "the TLS handshake with \(peer)"
    while true {
      switch channel.handshake() {
      case .done: return
      case .wantsRead: try await wait(channel, .readable, step)
      case .wantsWrite: try await wait(channel, .writable, step)
      case .ended: throw TransportError(.lost, "\(peer) ended the connection in the TLS handshake.")
      case .failed(let reason): throw TransportError(.tls, "TLS with \(peer) failed: \(reason).")
      }
    }
  }

  /// Speaks TLS with `host` through `channel` and returns the certificate, not yet judged.
  func secure(_ channel: Channel, host: String, judges: Bool) async throws(TransportError) -> Certificate {
    channel.secure(try ClientTLS.session(host: host, judges: judges))
    try await shakeHands(channel, with: host)
    guard let certificate = channel.peerCertificate() else { throw TransportError(.tls, "\(host) has no certificate.") }
    return certificate
  }

  /// Throws unless the certificate is what `trust` asks for. To be called before anything is written.
  func judge(_ certificate: Certificate, _ trust: Trust, host: String) throws(TransportError) {
    switch trust {
    case .pinned(let pin):
      if certificate.fingerprint != pin {
        throw TransportError(
          .pinMismatch(certificate.fingerprint),
          "The certificate of \(host) (SHA-256 \(hexadecimal(certificate.fingerprint))) is not the one that was trusted."
        )
      }
    case .system:
      if let complaint = certificate.complaint {
        throw TransportError(
          .untrusted(certificate.fingerprint),
          "The system does not trust the certificate of \(host) "
            + "(SHA-256 \(hexadecimal(certificate.fingerprint))): \(complaint).")
      }
    }
  }
}
