/// How one camera is shared: opened for the first who asks, closed after the last (or a while later), told as gone to everybody.
///
/// A camera that is a program is opened in one of two ways, and can't be in both at a time: pictures are served by a film as well, but a film
/// waits until those who have pictures are done.
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
  private let filmsApart: Bool
  private let name: String

  /// `stays`: whether it lingers after its last subscriber. `filmsApart`: whether it is opened in another way for films than for pictures.
  init(name: String, stays: Bool, filmsApart: Bool = false) {
    self.name = name
    self.stays = stays
    self.filmsApart = filmsApart
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
      return serveWaiting(format)
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
      // Who waits for a film is not overtaken, or it might wait for ever.
      let isFit = served.isEmpty ? wish == self.wish || wish.isServed(by: format) : waiting.isEmpty
      if isFit && suits(wish) {
        served.append(subscriber)
        return [.serve(subscriber, format)]
      }
      waiting.append((subscriber, wish))
      return served.isEmpty ? close() : []
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
    case .opening: return waiting.contains { suits($0.wish) } ? [] : close()
    case .streaming where wasServed && served.isEmpty: return stays && waiting.isEmpty ? [.linger] : close()
    // The film that was waited for is not wanted any more.
    case .streaming(let format): return waiting.allSatisfy { suits($0.wish) } ? serveWaiting(format) : []
    default: return []
    }
  }

  /// Whether frames as it is open now are of use for a wish.
  private func suits(_ wish: CaptureWish) -> Bool {
    !filmsApart || wish.purpose == .picture || self.wish.purpose == .motion
  }

  private mutating func serveWaiting(_ format: FrameFormat) -> [Action] {
    let ready = waiting.filter { suits($0.wish) }.map(\.subscriber)
    waiting = waiting.filter { !suits($0.wish) }
    served += ready
    return ready.map { .serve($0, format) }
  }

  private mutating func ended(_ error: CameraError?) -> [Action] {
    switch phase {
    case .idle: return []
    case .closing:
      phase = .idle
      guard let first = waiting.first else { return [] }
      let film = filmsApart ? waiting.first { $0.wish.purpose == .motion } : nil
      wish = (film ?? first).wish
      phase = .opening
      return [.open(wish)]
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
