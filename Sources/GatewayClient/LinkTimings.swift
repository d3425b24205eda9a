import System

/// How long the link waits for what. The defaults are the protocol's; tests use shorter ones.
public struct LinkTimings: Sendable {
  /// From the first name look-up to the upgrade.
  public var connectTimeout: Duration = .seconds(15)
  /// From the upgrade to hello-ok; as long as gateways wait for `connect` (protocol §1.2).
  public var helloDeadline: Duration = .seconds(15)
  /// The first back-off, doubled each time.
  public var backOff: Duration = .milliseconds(500)
  public var longestBackOff: Duration = .seconds(30)
  /// A session this long shows that the gateway is well again: only then does the back-off begin anew.
  public var stableSession: Duration = .seconds(30)
  /// Between two asks while a person has to approve.
  public var approvalPoll: Duration = .seconds(2)
  public var longestApprovalPoll: Duration = .seconds(15)
  /// A ping goes out after so long without any byte from the gateway.
  public var pingAfter: Duration = .seconds(15)
  /// How long its answer may take.
  public var pongDeadline: Duration = .seconds(10)
  /// How long the answer to a ping may take that goes out because the clock was set.
  public var probeDeadline: Duration = .seconds(3)
  /// A sleep longer than this has ended the connection: gateways drop a client that does not answer pings for 25 s.
  public var longestSleep: Duration = .seconds(20)
  /// The gateway's tick counts as missing after twice its interval, which is taken as at least this.
  public var shortestTick: Duration = .seconds(1)
  /// Default limit of a request.
  public var requestTimeout: Duration = .seconds(15)
  /// How often the operator socket asks whether the command surface was approved: at first, and later.
  public var surfacePoll: Duration = .seconds(2)
  public var longestSurfacePoll: Duration = .seconds(15)
  public init() {}
}

/// The three clocks at one moment.
public struct Moment: Sendable, Equatable {
  /// Stands still while the machine sleeps.
  public var monotonic: Duration
  /// Goes on while it sleeps.
  public var sinceBoot: Duration
  /// Milliseconds since 1970.
  public var wallMs: Int64

  public init(monotonic: Duration, sinceBoot: Duration, wallMs: Int64) {
    self.monotonic = monotonic
    self.sinceBoot = sinceBoot
    self.wallMs = wallMs
  }

  /// The machine's clocks.
  @Sendable public static func now() -> Moment {
    Moment(monotonic: Monotonic.now(), sinceBoot: Monotonic.sinceBoot(), wallMs: WallClock.milliseconds())
  }
}
