import Crypto
import GatewayProtocol
import System
import Transport

/// One socket as the gateway knows it. Lives on the gateway's actor.
final class Connection {
  enum Phase {
    case handshake
    case open(Admission.Welcome)
    /// A close is out; what still comes is not read.
    case ended
  }

  let id: Int
  let socket: WebSocket
  /// `server.connId`.
  let connID = Random.uuid()
  let nonce = Random.uuid()
  let peer: Admission.Peer
  let openedAtMs = WallClock.milliseconds()
  private(set) var phase = Phase.handshake
  /// What it was let in as; stays readable after its end.
  private(set) var lastSeat: Admission.Welcome?
  var handshakeTimer: EventLoop.Token?
  /// The last broadcast's number.
  var seq: Int64 = 0
  /// In a row.
  var roleErrors = 0
  /// Sessions a node has subscribed to.
  var chatSessions: Set<String> = []
  private(set) var isStalled = false

  init(id: Int, socket: WebSocket) {
    self.id = id
    self.socket = socket
    peer = Admission.Peer(of: socket.request)
  }

  /// The seat while it is open.
  var seat: Admission.Welcome? { if case .open(let seat) = phase { seat } else { nil } }
  var isNode: Bool { seat?.role == .node }
  var nodeID: String? { seat?.role == .node ? seat?.deviceID : nil }

  /// Whether it is an operator that holds `scope`.
  func holds(_ scope: String) -> Bool {
    guard let seat, seat.role == .operator else { return false }
    return Scope.covers(seat.scopes, scope)
  }

  /// Messages of the size a client may send from now on are taken.
  func open(_ seat: Admission.Welcome, maxMessage: Int) {
    phase = .open(seat)
    lastSeat = seat
    socket.assumeIsolated { $0.setMaxMessage(maxMessage) }
  }

  func cancelTimer(on loop: EventLoop) {
    if let handshakeTimer { loop.cancel(handshakeTimer) }
    handshakeTimer = nil
  }

  // MARK: Sending

  func post(_ frame: Frame) { post(frame.encoded()) }

  /// Puts a frame behind those already on their way. False when the socket has ended.
  @discardableResult
  func post(_ bytes: [UInt8]) -> Bool {
    if isStalled { return true }
    if case .ended = phase { return false }
    return socket.assumeIsolated { socket in
      do throws(Closure) {
        try socket.post(bytes)
        return true
      } catch {
        return false
      }
    }
  }

  /// An event for this connection alone, which has no `seq`.
  func tell(_ event: String, _ payload: JSON) { post(Frame.event(Frame.Event(name: event, payload: payload))) }

  func answer(_ requestID: String, _ result: Result<JSON?, WireError>) {
    post(Frame.response(Frame.Response(id: requestID, result: result)))
  }

  var unsent: Int { socket.assumeIsolated { $0.bufferedBytes } }

  // MARK: Ending

  /// Says goodbye behind what is on its way. Later calls change nothing.
  func close(_ code: UInt16, _ reason: String) {
    if case .ended = phase { return }
    phase = .ended
    if isStalled { return }
    let socket = socket
    Task { await socket.close(code: code, reason: reason) }
  }

  func drop(_ why: String) {
    phase = .ended
    socket.assumeIsolated { $0.drop(why) }
  }

  // MARK: Faults

  /// Nothing is read, sent or ponged any more, and yet it stays open: the other end of a pulled cable.
  func stall() {
    isStalled = true
    socket.assumeIsolated { $0.stall() }
  }

  /// Bytes past the framing.
  func postRaw(_ bytes: [UInt8]) { socket.assumeIsolated { $0.postRaw(bytes) } }
}

extension Admission.Peer {
  /// Any header that a proxy adds makes a client a remote one, wherever its socket comes from.
  init(of request: UpgradeRequest?) {
    let headers = request?.headers ?? [:]
    let forwarding = [
      "forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip", "cf-connecting-ip",
      "true-client-ip", "x-client-ip",
    ]
    let forwarded = forwarding.compactMap { headers[$0] }.first
    let address = request?.remoteAddress ?? ""
    let isLoopback = address.hasPrefix("127.") || address == "::1" || address.hasPrefix("::ffff:127.")
    self.init(isDirect: isLoopback && forwarded == nil, address: forwarded ?? address)
  }
}
