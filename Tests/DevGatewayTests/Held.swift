import System

/// Ids in order: r1, r2, …
func counted() -> @Sendable () -> String {
  let last = Lock(0)
  return {
    last.withLock {
      $0 += 1
      return "r\($0)"
    }
  }
}

/// A value that macros may call mutating methods of.
final class Held<Value> {
  var it: Value
  init(_ value: Value) { it = value }
  func with<Result>(_ act: (inout Value) -> Result) -> Result { act(&it) }
}
