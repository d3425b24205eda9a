import GatewayProtocol
import System
import Transport

/// What can be made to go wrong (protocol, appendix A, item 10). Each knob is one call; `clearFaults` undoes the lasting ones.
struct Faults {
  var isStarting = false
  var ticks = true
  /// Sockets are accepted and upgraded, and then nothing.
  var answersNothing = false
  /// By role; nil = both.
  var refusals: [Refusals] = []
  /// Methods that are carried out, and whose answers wait.
  var heldMethods: Set<String> = []
  var heldAnswers: [HeldAnswer] = []

  struct HeldAnswer {
    let connection: Connection
    let requestID: String
    let payload: JSON?
  }

  struct Refusals {
    var refusal: Refusal
    var role: Role?
    /// How often it is still used; nil = always.
    var left: Int?
  }

  mutating func refusal(of params: JSON?) -> Refusal? {
    let role = Role(rawValue: params?["role"]?.string ?? "operator")
    guard let index = refusals.firstIndex(where: { $0.role == nil || $0.role == role }) else { return nil }
    let refusal = refusals[index].refusal
    if let left = refusals[index].left {
      refusals[index].left = left - 1
      if left <= 1 { refusals.remove(at: index) }
    }
    return refusal
  }
}

extension DevGateway {
  /// Back to good behaviour. Stalled sockets stay stalled.
  public func clearFaults() { faults = Faults() }

  // MARK: Connecting

  /// Turns every connect away as a gateway that is still starting: `startup-sidecars`, 1013.
  public func setStarting(_ isStarting: Bool) { faults.isStarting = isStarting }

  /// Turns connects away in any words of protocol §5.5, `times` times or until `clearFaults`.
  public func refuseConnects(_ refusal: Refusal, as role: Role? = nil, times: Int? = nil) {
    faults.refusals.append(Faults.Refusals(refusal: refusal, role: role, left: times))
  }

  /// New sockets are upgraded and then never answered; with `false`, later ones are again.
  public func setAnswersNothing(_ answersNothing: Bool) { faults.answersNothing = answersNothing }

  /// Carries these methods out and holds their answers back until `releaseAnswers`; more than 64 are lost.
  public func holdAnswers(to methods: String...) { faults.heldMethods.formUnion(methods) }

  /// How many answers are held back.
  public var heldAnswers: Int { faults.heldAnswers.count }

  /// Gives the answers that were held back, and holds none any more.
  public func releaseAnswers() {
    let answers = faults.heldAnswers
    faults.heldMethods = []
    faults.heldAnswers = []
    for answer in answers { answer.connection.answer(answer.requestID, .success(answer.payload)) }
  }

  /// Whether the answer waits now.
  func holds(_ payload: JSON?, of call: Call) -> Bool {
    guard faults.heldMethods.contains(call.method) else { return false }
    if faults.heldAnswers.count < 64 {
      faults.heldAnswers.append(Faults.HeldAnswer(connection: call.connection, requestID: call.id, payload: payload))
    }
    return true
  }

  // MARK: Coming and going

  /// Says `shutdown` and 1012, is away for `pause`, and comes back on the same port with all that it remembers.
  public func restart(pause: Duration = .milliseconds(50)) async throws(DevGatewayError) {
    await end(restartExpectedMs: Int64(pause.milliseconds.rounded(.up)))
    try? await Task.sleep(for: pause)
    try start()
  }

  /// Comes back with another certificate: pins of the old one no longer fit.
  public func swapCertificate(to identity: ServerIdentity) async throws(DevGatewayError) {
    await crash()
    tls = identity
    try start()
  }

  // MARK: Ticks and numbers

  public func setTicks(_ ticks: Bool) { faults.ticks = ticks }

  /// The next broadcast of every connection leaves `count` numbers out.
  public func skipSeq(by count: Int64 = 1) {
    for connection in connections.values { connection.seq += count }
  }

  /// Treats the sockets of a device as slow consumers: they are closed with 1008.
  public func declareSlow(_ deviceID: String, role: Role? = nil) {
    each(deviceID, role) { $0.close(1008, "slow consumer") }
  }

  // MARK: One device's sockets

  /// Closes with any code and reason.
  public func close(_ deviceID: String, role: Role? = nil, code: UInt16, reason: String) {
    each(deviceID, role) { $0.close(code, reason) }
  }

  /// Drops without a close frame.
  public func drop(_ deviceID: String, role: Role? = nil) { each(deviceID, role) { $0.drop("dropped by the test") } }

  /// Begins a frame and drops in its middle.
  public func closeInMidFrame(_ deviceID: String, role: Role? = nil) {
    each(deviceID, role) {
      // A text frame of 1000 bytes, of which 12 come.
      $0.postRaw([0x81, 126, 0x03, 0xE8] + Array(#"{"type":"eve"#.utf8))
      $0.drop("dropped in mid-frame")
    }
  }

  /// Neither reads nor sends nor pongs any more, and stays open: a half-open socket.
  public func stall(_ deviceID: String, role: Role? = nil) { each(deviceID, role) { $0.stall() } }

  /// Sends any text as a message: JSON that is no frame, text that is no JSON.
  public func sendText(_ text: String, to deviceID: String, role: Role? = nil) {
    each(deviceID, role) { $0.post(Array(text.utf8)) }
  }

  /// Sends bytes past the WebSocket framing.
  public func sendRaw(_ bytes: [UInt8], to deviceID: String, role: Role? = nil) {
    each(deviceID, role) { $0.postRaw(bytes) }
  }

  /// Sends an event whose message is `bytes` long.
  public func sendLarge(_ bytes: Int, to deviceID: String, role: Role? = nil) {
    let frame = #"{"type":"event","event":"large","payload":""}"#
    let filler = String(repeating: "x", count: max(0, bytes - frame.utf8.count))
    sendText(#"{"type":"event","event":"large","payload":"\#(filler)"}"#, to: deviceID, role: role)
  }

  /// Sends an event to one device, or to the sockets of one role of it.
  public func send(event: String, payload: JSON, to deviceID: String, role: Role? = nil) {
    each(deviceID, role) { $0.tell(event, payload) }
  }

  private func each(_ deviceID: String, _ role: Role?, _ act: (Connection) -> Void) {
    for connection in connections.values
    where connection.seat?.deviceID == deviceID && (role == nil || connection.seat?.role == role) { act(connection) }
  }
}
