import System

/// One source, any number of listeners, each with a bounded queue of its own: a slow one loses its oldest elements and holds
/// nobody up.
final class Broadcast<Element: Sendable>: Sendable {
  private struct State {
    var listeners: [Int: AsyncStream<Element>.Continuation] = [:]
    var nextID = 0
    var hasEnded = false
  }
  private let state = Lock(State())
  private let depth: Int

  init(depth: Int) { self.depth = depth }

  /// A new listener, which gets `first` at once.
  func listen(first: Element? = nil) -> AsyncStream<Element> {
    let (stream, continuation) = AsyncStream.makeStream(of: Element.self, bufferingPolicy: .bufferingNewest(depth))
    let id = state.withLock { state -> Int? in
      if state.hasEnded { return nil }
      state.nextID += 1
      state.listeners[state.nextID] = continuation
      return state.nextID
    }
    if let first { continuation.yield(first) }
    guard let id else {
      continuation.finish()
      return stream
    }
    continuation.onTermination = { [weak self] _ in self?.state.withLock { _ = $0.listeners.removeValue(forKey: id) } }
    return stream
  }

  func send(_ element: Element) {
    for listener in state.withLock({ Array($0.listeners.values) }) { listener.yield(element) }
  }

  /// Ends all listeners' streams, and those to come.
  func end() {
    let listeners = state.withLock { state -> [AsyncStream<Element>.Continuation] in
      state.hasEnded = true
      defer { state.listeners = [:] }
      return Array(state.listeners.values)
    }
    for listener in listeners { listener.finish() }
  }
}
