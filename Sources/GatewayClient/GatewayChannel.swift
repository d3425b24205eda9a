import GatewayProtocol
import System
import Transport

/// One WebSocket that speaks frames: requests find their answers, events go to one listener. It ends with its socket and never comes
/// back; `GatewaySocket` makes the next one. Pinned to its loop.
actor GatewayChannel {
  nonisolated let loop: EventLoop
  nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

  /// Requests that may wait for an answer at once.
  static let mostPending = 256
  /// Events that may come before the listener is there. Gateways push a handful before hello-ok (protocol §3.7).
  static let mostEarlyEvents = 64
  /// The bytes of them together.
  private static let mostEarlyBytes = 8 << 20
  /// Messages that are no frame, until the connection is given up.
  static let mostGarbage = 16
  /// The largest whole number that JSON programs agree on.
  static let largestSeq: Int64 = 1 << 53
  /// Larger messages are parsed off the loop, so that the other socket is not held up.
  private static let largeMessage = 256 << 10

  /// The longest message taken before the gateway has let us in, and afterwards, in bytes: nobody who has not is worth the memory.
  static let longestBeforeHello = 4 << 20
  private static let longest = 26_214_400

  /// What the channel tells its owner, on the loop.
  struct Listener: Sendable {
    var message: @Sendable () -> Void
    var event: @Sendable (Frame.Event) -> Void
    /// Broadcasts that were lost before this one.
    var gap: @Sendable (Int64) -> Void
  }

  private struct Pending {
    let continuation: CheckedContinuation<Result<JSON, LinkError>, Never>
    let timer: EventLoop.Token
  }

  private let socket: WebSocket
  private var listener: Listener?
  private var early: [Frame.Event] = []
  private var earlyBytes = 0
  private var isLetIn = false
  private var pending: [String: Pending] = [:]
  private var nextID = 0
  private var lastSeq: Int64?
  private var garbage = 0
  private var challengeWaiter: CheckedContinuation<JSON?, Never>?
  private var challenge: JSON?
  private var closure: Closure?
  /// The longest message the gateway takes; 64 KiB until hello-ok.
  private(set) var maxPayload = ProtocolLimits.preAuthPayload

  init(socket: WebSocket) {
    self.socket = socket
    loop = socket.loop
  }

  // MARK: Reading

  /// Reads until the socket ends, and returns how. Run it once.
  func run() async -> Closure {
    let closure = await socket.deliver { [weak self] message in
      self?.assumeIsolated { $0.take(message) } ?? .wholly
    }
    end(closure)
    return closure
  }

  private func take(_ message: Message) -> WebSocket.Taken {
    // The goodbye is on its way.
    if garbage > Self.mostGarbage { return .wholly }
    if message.bytes.count <= Self.largeMessage {
      take(Self.decode(message.bytes), length: message.bytes.count)
      return .wholly
    }
    Task {
      take(await Self.decodeElsewhere(message.bytes), length: message.bytes.count)
      await socket.goOn()
    }
    return .andHold
  }

  private func take(_ frame: Result<Frame, FrameError>, length: Int) {
    listener?.message()
    switch frame {
    case .success(let frame):
      if !isLetIn, case .response(let response) = frame, case .success = response.result {
        isLetIn = true
        socket.assumeIsolated { $0.setMaxMessage(Self.longest) }
      }
      if case .event = frame, listener == nil {
        earlyBytes += length
        if earlyBytes > Self.mostEarlyBytes { return }
      }
      take(frame)
    case .failure(let error): takeGarbage(error)
    }
  }

  private nonisolated static func decode(_ bytes: [UInt8]) -> Result<Frame, FrameError> {
    Result { () throws(FrameError) in try Frame(decoding: bytes) }
  }

  @concurrent private nonisolated static func decodeElsewhere(_ bytes: [UInt8]) async -> Result<Frame, FrameError> {
    decode(bytes)
  }

  private func take(_ frame: Frame) {
    switch frame {
    case .response(let response):
      switch response.result {
      case .success(let payload): settle(response.id, .success(payload ?? .null))
      case .failure(let error): settle(response.id, .failure(.refused(error)))
      }
    case .event(let event): take(event)
    case .request: break  // A gateway asks nothing; a newer one that does is not answered.
    }
  }

  private func take(_ event: Frame.Event) {
    if event.name == "connect.challenge" {
      challenge = event.payload ?? .null
      challengeWaiter?.resume(returning: challenge)
      challengeWaiter = nil
      return
    }
    guard let listener else {
      if early.count < Self.mostEarlyEvents { early.append(event) }
      return
    }
    // A number that no counter reaches is none, and would overflow below.
    if let seq = event.seq, (0...Self.largestSeq).contains(seq) {
      if let lastSeq, seq > lastSeq + 1 { listener.gap(seq - lastSeq - 1) }
      lastSeq = max(seq, lastSeq ?? seq)
    }
    listener.event(event)
  }

  private func takeGarbage(_ error: FrameError) {
    garbage += 1
    if garbage == 1 {
      Log.warning("The gateway sent a message that is no frame (\(Self.describe(error))); it is ignored.")
    }
    if garbage == Self.mostGarbage + 1 {
      Task { await socket.close(code: 1008, reason: "too many messages that are no frames") }
    }
  }

  /// Where the mistake is; never the text itself, which may hold anything.
  private static func describe(_ error: FrameError) -> String {
    switch error {
    case .notJSON(let error): "no JSON: \(error)"
    case .invalid(let problem, _): problem
    }
  }

  private func end(_ closure: Closure) {
    self.closure = closure
    challengeWaiter?.resume(returning: nil)
    challengeWaiter = nil
    for id in Array(pending.keys) { settle(id, .failure(Self.lost(closure))) }
    listener = nil
  }

  private static func lost(_ closure: Closure) -> LinkError {
    LinkError(.connectionLost, "The connection to the gateway ended (\(closure)) before the answer.")
  }

  // MARK: The handshake

  /// The payload of `connect.challenge`; nil when the socket ends without one.
  func nextChallenge() async -> JSON? {
    if let challenge { return challenge }
    if closure != nil { return nil }
    return await withCheckedContinuation { waiter in
      // Looked at again: the runtime may have let others run since.
      if challenge != nil || closure != nil { return waiter.resume(returning: challenge) }
      challengeWaiter = waiter
    }
  }

  /// Called with hello-ok: what came early goes to the listener, then everything else as it comes.
  func welcome(maxPayload: Int, listener: Listener) {
    self.maxPayload = maxPayload
    if closure != nil { return }
    self.listener = listener
    let events = early
    early = []
    for event in events { take(event) }
  }

  // MARK: Asking

  /// Sends a request and waits for its answer; `.null` when the answer has no payload.
  func request(_ method: String, _ params: JSON?, timeout: Duration) async throws(LinkError) -> JSON {
    nextID += 1
    let id = "r-\(nextID)"
    let bytes = Frame.request(Frame.Request(id: id, method: method, params: params)).encoded()
    try check(bytes)
    let result = await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let timer = loop.after(timeout) { [weak self] in
          self?.assumeIsolated { $0.settle(id, .failure(Self.late(method, timeout))) }
        }
        pending[id] = Pending(continuation: continuation, timer: timer)
        // In a task of its own, so that a peer who does not read can't hold the request beyond its limit.
        Task {
          do throws(Closure) { try await socket.send(bytes) } catch { settle(id, .failure(Self.lost(error))) }
        }
      }
    } onCancel: {
      Task { await self.settle(id, .failure(LinkError(.cancelled, "The request \(method) was cancelled."))) }
    }
    return try result.get()
  }

  private static func late(_ method: String, _ limit: Duration) -> LinkError {
    LinkError(.timeout, "The gateway did not answer \(method) within \(limit.inSeconds) s.")
  }

  private func check(_ bytes: [UInt8]) throws(LinkError) {
    if let closure { throw Self.lost(closure) }
    if bytes.count > maxPayload {
      throw LinkError(.tooLarge, "The request has \(bytes.count) bytes; this gateway takes at most \(maxPayload).")
    }
    if pending.count >= Self.mostPending {
      throw LinkError(.tooManyRequests, "\(pending.count) requests already wait for the gateway's answer.")
    }
  }

  private func settle(_ id: String, _ result: Result<JSON, LinkError>) {
    guard let waiting = pending.removeValue(forKey: id) else { return }
    loop.cancel(waiting.timer)
    waiting.continuation.resume(returning: result)
  }

  // MARK: Answering invokes

  /// The longest payload text that fits into a result. Quotes and backslashes in it take two bytes each, which `answer` looks after.
  var payloadLimit: Int { max(maxPayload - 4096, 0) }

  /// Sends the result of an invoke. Best effort: a result that can't be sent any more is dropped, and never sent on another
  /// connection (protocol §10.2). One that is over the limit becomes the error `PAYLOAD_TOO_LARGE`.
  func answer(_ invoke: InvokeRequest, _ outcome: InvokeOutcome) async {
    if closure != nil { return }
    nextID += 1
    let id = "r-\(nextID)"
    var bytes = await Self.encode(outcome, id, invoke)
    if bytes.count > maxPayload {
      let message = "PAYLOAD_TOO_LARGE: The result has \(bytes.count) bytes; this gateway takes at most \(maxPayload)."
      let error: JSON = ["code": "PAYLOAD_TOO_LARGE", "message": .string(message)]
      bytes = InvokeOutcome.failure(error).resultFrame(requestID: id, invoke: invoke)
    }
    for _ in 0..<Self.mostTries {
      do throws(Closure) {
        return try await socket.send(bytes)
      } catch {
        guard error == .tooMuchUnsent else {
          return Log.debug("The result of \(invoke.command) was not sent: \(error).")
        }
      }
      // Others are still on their way to a slow gateway.
      do { try await Task.sleep(for: Self.pause) } catch { return }
    }
    Log.warning("The result of \(invoke.command) was not sent: the gateway takes too little, too slowly.")
  }

  /// A result waits a minute for its turn on the wire, longer than any asker waits.
  private static let mostTries = 300
  private static let pause = Duration.milliseconds(200)

  private nonisolated static func encode(_ outcome: InvokeOutcome, _ id: String, _ invoke: InvokeRequest) async
    -> [UInt8]
  {
    if case .success(let text?) = outcome, text.count > largeMessage {
      return await encodeElsewhere(outcome, id, invoke)
    }
    return outcome.resultFrame(requestID: id, invoke: invoke)
  }

  @concurrent private nonisolated static func encodeElsewhere(
    _ outcome: InvokeOutcome, _ id: String, _ invoke: InvokeRequest
  ) async -> [UInt8] { outcome.resultFrame(requestID: id, invoke: invoke) }

  // MARK: Ending and liveness

  var lastActivity: Duration { get async { await socket.lastActivity } }

  /// Asks for a sign of life; false when none came, and then the socket has been dropped.
  func ping(deadline: Duration) async -> Bool {
    do throws(Closure) {
      try await socket.ping(timeout: deadline)
      return true
    } catch {
      return false
    }
  }

  func close(code: UInt16, reason: String) async { await socket.close(code: code, reason: reason) }
  func drop(_ why: String) async { await socket.drop(why) }
}
