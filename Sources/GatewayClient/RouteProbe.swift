import System
import Transport

/// Finds the route that works (protocol §7.6): one after the other in their order, a TCP connect of 2 s each.
public enum RouteProbe {
  public static let timeout: Duration = .seconds(2)

  /// The first route that answers; nil when none does. `tried` hears of each.
  public static func first(
    of routes: [Endpoint], loop: EventLoop, timeout: Duration = timeout, tried: (Endpoint, Bool) -> Void = { _, _ in }
  ) async -> Endpoint? {
    for route in routes {
      let answers = await isReachable(route, timeout: timeout, loop: loop)
      tried(route, answers)
      if answers { return route }
    }
    return nil
  }
}
