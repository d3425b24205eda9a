import System
import Transport

/// What the composition of the program decides for a link.
public struct LinkOptions: Sendable {
  public var timings = LinkTimings()
  /// The proxy for an endpoint; nil = none. The program reads the environment, the link does not.
  public var proxy: @Sendable (Endpoint) -> Proxy? = { _ in nil }
  /// Added to the upgrade request, on `wss` only.
  public var headers: [(name: String, value: String)] = []
  /// The machine's clocks; tests put in others.
  public var clock: @Sendable () -> Moment = Moment.now
  /// 0 to 1, for the back-off.
  public var jitter: @Sendable () -> Double = { Double.random(in: 0...1) }
  public init() {}
}
