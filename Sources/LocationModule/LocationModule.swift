import GatewayProtocol
import Location
import NodeKit
import System

/// LocationModule: `location.get` for agents (node-commands §5), with its gates: off until switched on, only while somebody uses the machine
/// unless `location.always` is on, and to the metre only while `location.precise` is.
public struct LocationModule: CapabilityModule {
  /// How far agents may go: the modes of §5.
  public enum Mode: String, Sendable { case off, whileUsing, always }

  /// How much a person lets agents know.
  public struct Privacy: Sendable, Equatable {
    /// Side of the field that a position is rounded to, in metres; 0 = not.
    public var roundToMeters: Double
    public init(roundToMeters: Double = 0) { self.roundToMeters = roundToMeters }
  }

  public let capability: Capability = "location"
  public let permissions = ["location"]
  public let commands = [
    Command(
      "location.get", summary: "Where this machine is.", gatewayDefault: .needsAllow, consent: Self.consent,
      limit: .seconds(65))
  ]
  public let switches = [Self.always, Self.precise]

  public static let consent = Consent(
    name: "location",
    allows: "Agents may ask where this machine is; each time is shown.", refusalCode: "LOCATION_DISABLED")
  public static let always = Consent(
    name: "location.always", allows: "Agents may ask where this machine is also while nobody uses it or it is locked.",
    refusalCode: "LOCATION_BACKGROUND_UNAVAILABLE")
  public static let precise = Consent(
    name: "location.precise", allows: "Agents are told the place as well as it is known, not to a kilometre only.",
    refusalCode: "LOCATION_PERMISSION_REQUIRED", isOnByDefault: true)

  /// What a place is rounded to while `location.precise` is off.
  static let coarse = 1000.0

  private let locator: Locator
  private let privacy: Lock<Privacy>
  private let store: SwitchStore
  private let sessions: LoginSessions

  public init(locator: Locator, privacy: Privacy, switches: SwitchStore, sessions: LoginSessions) {
    self.locator = locator
    self.privacy = Lock(privacy)
    store = switches
    self.sessions = sessions
  }

  public var mode: Mode {
    if !store.isEnabled(Self.consent) { return .off }
    return store.isEnabled(Self.always) ? .always : .whileUsing
  }

  /// Takes over settings that were read anew.
  public func choose(_ new: Privacy) { privacy.withLock { $0 = new } }

  public func stop() async { await locator.close() }

  /// On a machine where nobody can sit down, "while using" would mean never.
  public func alsoTurned(with name: String, on: Bool) async -> [String: Bool] {
    guard name == Self.consent.name else { return [:] }
    if !on { return [Self.always.name: false] }
    return await sessions.hasSeat() ? [:] : [Self.always.name: true]
  }

  public func availability() async -> Availability {
    var reasons: [LocationError] = []
    for finding in await locator.findings() {
      switch finding.state {
      case .success: return .ready
      case .failure(let error): reasons.append(error)
      }
    }
    return .absent(
      reason: reasons.map(\.summary).joined(separator: " "), remedy: reasons.lazy.compactMap(\.remedy).first)
  }

  public func handle(_ invocation: Invocation) async throws(CommandError) -> Payload {
    let request = LocationParams(invocation.lenientParams, isPreciseAllowed: store.isEnabled(Self.precise))
      .request(now: Monotonic.now(), invocation: invocation.deadline)
    if mode == .whileUsing { try await checkUse() }
    let located: Located
    do throws(LocationError) { located = try await locator.locate(request) } catch {
      throw CommandError(error.code.rawValue, error.summary, remedy: error.remedy)
    }
    // While the receiver was waited for the person may have switched it off, or have gone.
    switch mode {
    case .off: throw Self.consent.refusal
    case .whileUsing: try await checkUse()
    case .always: break
    }
    // logind may take its time, too.
    if mode == .off { throw Self.consent.refusal }
    return .json(Self.json(told(located.fix)))
  }

  /// A fix as agents may know it: the grid comes last.
  func told(_ fix: Fix) -> Fix {
    PrivacyGrid(meters: roundsTo)?.applied(to: fix) ?? fix
  }

  /// The side of the grid's fields now, in metres; 0 = no grid.
  public var roundsTo: Double {
    max(privacy.withLock { $0.roundToMeters }, store.isEnabled(Self.precise) ? 0 : Self.coarse)
  }

  private func checkUse() async throws(CommandError) {
    let summary: String
    switch await sessions.use() {
    case .inUse: return
    case .locked: summary = "This machine is locked."
    case .away: summary = "Nobody uses this machine now."
    case .unknown: summary = "Whether somebody uses this machine is not known: logind does not answer."
    }
    throw CommandError(
      Self.always.refusalCode, summary,
      remedy: "To allow it nonetheless, switch it on there: talknode capabilities enable \(Self.always.name)")
  }

  // MARK: The wire

  /// The payload of §5. When the time is that of receipt, one more member says so.
  public static func json(_ fix: Fix) -> JSON {
    .object(present: [
      "lat": .double(rounded(fix.latitude, 1e7)), "lon": .double(rounded(fix.longitude, 1e7)),
      // Up, for 0 would mean that it is exact.
      "accuracyMeters": .double((fix.accuracyMeters * 10).rounded(.up) / 10),
      "altitudeMeters": fix.altitudeMeters.map { .double(rounded($0, 10)) },
      "speedMps": fix.speedMps.map { .double(rounded($0, 100)) },
      "headingDeg": fix.headingDeg.map { .double(rounded($0, 10).truncatingRemainder(dividingBy: 360)) },
      "timestamp": .string(WallClock.iso8601(fix.timeMs)), "isPrecise": .bool(fix.isPrecise),
      "source": .string(fix.source.rawValue), "timestampIsReceipt": fix.isTimeFromReceipt ? true : nil,
    ])
  }

  private static func rounded(_ value: Double, _ parts: Double) -> Double {
    // No -0.
    (value * parts).rounded() / parts + 0
  }
}

/// The params of `location.get` (§5): anything that is not as it should be counts as not given.
struct LocationParams: Equatable {
  var timeoutMs: Int64
  var maxAgeMs: Int64?
  var detail: Detail

  init(_ params: JSON, isPreciseAllowed: Bool) {
    timeoutMs = min(max(params["timeoutMs"]?.int ?? 10_000, 1000), 60_000)
    maxAgeMs = params["maxAgeMs"]?.int.map { min(max($0, 0), 365 * 86_400_000) }
    let asked: Detail =
      switch params["desiredAccuracy"]?.string {
      case "coarse": .coarse
      case "precise": .precise
      default: .balanced
      }
    detail = isPreciseAllowed ? asked : min(asked, .balanced)
  }

  /// `invocation` is when the caller stops waiting: our answer is there a little before.
  func request(now: Duration, invocation: Duration) -> LocationRequest {
    let deadline = min(now + .milliseconds(timeoutMs), max(now, invocation - .milliseconds(50)))
    return LocationRequest(deadline: deadline, maxAge: maxAgeMs.map { .milliseconds($0) }, detail: detail)
  }
}
