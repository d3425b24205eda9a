/// How one camera is shared: opened for the first who asks, closed after the last (or a while later), told as gone to everybody.
///
/// A value without a clock: what has to be waited for is an action, what came of it an event.
struct FeedMachine: Sendable {
  typealias Subscriber = UInt64

  enum Phase: Sendable, Equatable {
    case idle
    case opening
    case streaming(FrameFormat)
    /// Asked to close. `isOverdue` when it has not in good time: nobody waits for it any longer.
    case closing(isOverdue: Bool)
  }

  enum Event: Sendable {
    case subscribe(Subscriber, CaptureWish)
    case unsubscribe(Subscriber)
    case opened(FrameFormat)
    case ended(CameraError?)
    /// Opening, or the next frame, takes too long.
    case overdue
    case lingered
    case closeOverdue
    case stop
  }

  enum Action: Sendable, Equatable {
    case open(CaptureWish)
    case close
    case serve(Subscriber, FrameFormat)
    case fail(Subscriber, CameraError)
    /// Stay open for a while: `lingered` is to follow. Ended by the next `serve` or `close`.
    case linger
  }

  private(set) var phase = Phase.idle
  private var waiting: [(subscriber: Subscriber, wish: CaptureWish)] = []
  private var served: [Subscriber] = []
  private var wish = CaptureWish()
  private let stays: Bool
  private let name: String

  /// `stays`: whether it lingers after its last subscriber.
  init(name: String, stays: Bool) {
    self.name = name
    self.stays = stays
  }

  /// Whether somebody gets its frames.
  var isServing: Bool { !served.isEmpty }

  mutating func on(_ event: Event) -> [Action] {
    switch event {
    case .subscribe(let subscriber, let wish): return subscribe(subscriber, wish)
    case .unsubscribe(let subscriber): return unsubscribe(subscriber)
    case .opened(let format):
      guard phase == .opening else { return [] }
      phase = .streaming(format)
      let served = waiting.map(\.subscriber)
      self.served += served
      waiting = []
      return served.map { .serve($0, format) }
    case .ended(let error): return ended(error)
    case .overdue:
      switch phase {
      case .opening, .streaming: return failAll(stuck) + close()
      case .idle, .closing: return []
      }
    case .lingered:
      guard case .streaming = phase, served.isEmpty else { return [] }
      return close()
    case .closeOverdue:
      guard case .closing = phase else { return [] }
      phase = .closing(isOverdue: true)
      return failAll(stuck)
    case .stop:
      let actions = failAll(CameraError(.stopped, "The program ends."))
      switch phase {
      case .opening, .streaming: return actions + close()
      case .idle, .closing: return actions
      }
    }
  }

  private mutating func subscribe(_ subscriber: Subscriber, _ wish: CaptureWish) -> [Action] {
    switch phase {
    case .idle:
      waiting.append((subscriber, wish))
      self.wish = wish
      phase = .opening
      return [.open(wish)]
    case .opening:
      waiting.append((subscriber, wish))
      return []
    case .streaming(let format):
      // Who comes second gets what is there: a camera has one format at a time. An idle one that is merely warm is opened anew.
      if !served.isEmpty || wish == self.wish || wish.isServed(by: format) {
        served.append(subscriber)
        return [.serve(subscriber, format)]
      }
      waiting.append((subscriber, wish))
      return close()
    case .closing(isOverdue: false):
      waiting.append((subscriber, wish))
      return []
    case .closing(isOverdue: true):
      return [.fail(subscriber, stuck)]
    }
  }

  private mutating func unsubscribe(_ subscriber: Subscriber) -> [Action] {
    waiting.removeAll { $0.subscriber == subscriber }
    let wasServed = served.contains(subscriber)
    served.removeAll { $0 == subscriber }
    switch phase {
    case .opening: return waiting.isEmpty ? close() : []
    case .streaming where wasServed && served.isEmpty: return stays ? [.linger] : close()
    default: return []
    }
  }

  private mutating func ended(_ error: CameraError?) -> [Action] {
    switch phase {
    case .idle: return []
    case .closing:
      phase = .idle
      guard let first = waiting.first else { return [] }
      wish = first.wish
      phase = .opening
      return [.open(first.wish)]
    case .opening, .streaming:
      phase = .idle
      return failAll(error ?? CameraError(.unplugged, "The camera \(name) has ended."))
    }
  }

  private mutating func close() -> [Action] {
    phase = .closing(isOverdue: false)
    return [.close]
  }

  private mutating func failAll(_ error: CameraError) -> [Action] {
    let all = waiting.map(\.subscriber) + served
    waiting = []
    served = []
    return all.map { .fail($0, error) }
  }

  private var stuck: CameraError {
    CameraError(
      .stuck, "The camera \(name) does not answer, or delivers no frames.",
      remedy: "Unplug it and plug it in again; if that does not help, look at: sudo dmesg")
  }
}
