import System
import TestSupport
import Testing

@testable import Camera

/// How one camera is shared, as a table and as a walk.
@Suite struct FeedMachineTests {
  private let format = FrameFormat(.mjpeg, Size(1280, 720))
  private let wish = CaptureWish(.picture, width: 1280)

  @Test("the first opens, the second gets what is there, the last closes")
  func shared() {
    var machine = FeedMachine(name: "cam", stays: false)
    #expect(machine.on(.subscribe(1, wish)) == [.open(wish)])
    #expect(machine.on(.subscribe(2, CaptureWish(.motion))) == [])
    #expect(machine.on(.opened(format)) == [.serve(1, format), .serve(2, format)])
    #expect(machine.on(.subscribe(3, CaptureWish(.picture, width: 3840))) == [.serve(3, format)])
    #expect(machine.on(.unsubscribe(1)) == [])
    #expect(machine.on(.unsubscribe(3)) == [])
    #expect(machine.on(.unsubscribe(2)) == [.close])
    #expect(machine.on(.ended(nil)) == [])
    #expect(machine.phase == .idle)
  }

  @Test("who comes while it closes is served by the next opening")
  func reopened() {
    var machine = FeedMachine(name: "cam", stays: false)
    _ = machine.on(.subscribe(1, wish))
    _ = machine.on(.opened(format))
    #expect(machine.on(.unsubscribe(1)) == [.close])
    #expect(machine.on(.subscribe(2, wish)) == [])
    #expect(machine.on(.ended(nil)) == [.open(wish)])
    #expect(machine.on(.opened(format)) == [.serve(2, format)])
  }

  @Test("a warm camera serves at once, or is opened anew for what it does not fit")
  func warm() {
    var machine = FeedMachine(name: "cam", stays: true)
    _ = machine.on(.subscribe(1, wish))
    _ = machine.on(.opened(format))
    #expect(machine.on(.unsubscribe(1)) == [.linger])
    #expect(machine.on(.subscribe(2, CaptureWish(.picture, width: 640))) == [.serve(2, format)])
    #expect(machine.on(.unsubscribe(2)) == [.linger])
    let larger = CaptureWish(.picture, width: 1920)
    #expect(machine.on(.subscribe(3, larger)) == [.close])
    #expect(machine.on(.ended(nil)) == [.open(larger)])
    _ = machine.on(.opened(format))
    #expect(machine.on(.unsubscribe(3)) == [.linger])
    #expect(machine.on(.lingered) == [.close])
  }

  @Test("a camera that fails tells everybody who has or awaits its frames")
  func failed() {
    let error = CameraError(.unplugged, "gone")
    var machine = FeedMachine(name: "cam", stays: true)
    _ = machine.on(.subscribe(1, wish))
    #expect(machine.on(.ended(error)) == [.fail(1, error)])
    _ = machine.on(.subscribe(2, wish))
    _ = machine.on(.opened(format))
    _ = machine.on(.subscribe(3, wish))
    #expect(machine.on(.ended(error)) == [.fail(2, error), .fail(3, error)])
    #expect(machine.phase == .idle)
  }

  @Test("one that does not answer is closed; when even that takes too long nobody waits for it until it has ended")
  func stuck() {
    var machine = FeedMachine(name: "cam", stays: false)
    _ = machine.on(.subscribe(1, wish))
    let actions = machine.on(.overdue)
    guard case .fail(1, let error)? = actions.first else {
      Issue.record("\(actions)")
      return
    }
    #expect(error.code == .stuck && actions.last == .close)
    #expect(machine.on(.subscribe(2, wish)) == [])
    #expect(machine.on(.closeOverdue) == [.fail(2, error)])
    #expect(machine.on(.subscribe(3, wish)) == [.fail(3, error)])
    #expect(machine.on(.ended(nil)) == [])
    #expect(machine.on(.subscribe(4, wish)) == [.open(wish)])
  }

  @Test("a film waits for those who take pictures, pictures do not overtake it, and are then served by it")
  func filmsApart() {
    let film = CaptureWish(.motion)
    var machine = FeedMachine(name: "pi", stays: false, filmsApart: true)
    #expect(machine.on(.subscribe(1, wish)) == [.open(wish)])
    #expect(machine.on(.subscribe(2, film)) == [])
    #expect(machine.on(.opened(format)) == [.serve(1, format)])
    #expect(machine.on(.subscribe(3, wish)) == [])
    #expect(machine.on(.unsubscribe(1)) == [.close])
    #expect(machine.on(.ended(nil)) == [.open(film)])
    #expect(machine.on(.opened(format)) == [.serve(2, format), .serve(3, format)])
    #expect(machine.on(.subscribe(4, wish)) == [.serve(4, format)])
    #expect(machine.on(.unsubscribe(2)) == [] && machine.on(.unsubscribe(3)) == [])
    #expect(machine.on(.unsubscribe(4)) == [.close])
  }

  @Test("a film that is given up before it begins leaves the pictures as they are")
  func filmGivenUp() {
    let film = CaptureWish(.motion)
    var machine = FeedMachine(name: "pi", stays: false, filmsApart: true)
    _ = machine.on(.subscribe(1, wish))
    _ = machine.on(.opened(format))
    #expect(machine.on(.subscribe(2, film)) == [] && machine.on(.subscribe(3, wish)) == [])
    #expect(machine.on(.unsubscribe(2)) == [.serve(3, format)])
    // Who opened it gives up, and only a film is waited for: it is opened anew.
    machine = FeedMachine(name: "pi", stays: false, filmsApart: true)
    _ = machine.on(.subscribe(1, wish))
    _ = machine.on(.subscribe(2, film))
    #expect(machine.on(.unsubscribe(1)) == [.close])
    #expect(machine.on(.ended(nil)) == [.open(film)])
  }

  @Test("whatever happens, everybody is served or failed once, and it is never opened twice")
  func walk() {
    var random = SeededRandom()
    for _ in 0..<300 {
      let filmsApart = random.below(2) == 0
      var machine = FeedMachine(name: "cam", stays: !filmsApart && random.below(2) == 0, filmsApart: filmsApart)
      var isFilm = false
      var films: Set<UInt64> = []
      var isOpen = false
      var isClosing = false
      var waiting: Set<UInt64> = []
      var served: Set<UInt64> = []
      var last: UInt64 = 0
      func take(_ actions: [FeedMachine.Action]) {
        for action in actions {
          switch action {
          case .open(let wish):
            #expect(!isOpen, "seed \(random.seed)")
            isFilm = wish.purpose == .motion
            isOpen = true
            isClosing = false
          case .close:
            #expect(isOpen && !isClosing, "seed \(random.seed)")
            isClosing = true
          case .serve(let id, _):
            #expect(waiting.remove(id) != nil && isOpen && !isClosing, "seed \(random.seed)")
            #expect(!filmsApart || isFilm || !films.contains(id), "seed \(random.seed)")
            served.insert(id)
          case .fail(let id, _):
            #expect(waiting.remove(id) != nil || served.remove(id) != nil, "seed \(random.seed)")
          case .linger: #expect(served.isEmpty && isOpen, "seed \(random.seed)")
          }
        }
      }
      for _ in 0..<60 {
        switch random.below(9) {
        case 0, 1:
          last += 1
          waiting.insert(last)
          let purpose: CaptureWish.Purpose = random.below(3) == 0 ? .motion : .picture
          if purpose == .motion { films.insert(last) }
          take(machine.on(.subscribe(last, CaptureWish(purpose, width: [640, 1920][random.below(2)]))))
        case 2, 3:
          guard let id = served.union(waiting).sorted().randomElement(using: &random) else { continue }
          served.remove(id)
          waiting.remove(id)
          take(machine.on(.unsubscribe(id)))
        case 4: if isOpen && !isClosing { take(machine.on(.opened(format))) }
        case 5:
          guard isOpen else { continue }
          isOpen = false
          isClosing = false
          take(machine.on(.ended(random.below(2) == 0 ? nil : CameraError(.unplugged, "gone"))))
        case 6: take(machine.on(.overdue))
        case 7: take(machine.on(.lingered))
        default: take(machine.on(.closeOverdue))
        }
      }
      take(machine.on(.stop))
      #expect(served.isEmpty && waiting.isEmpty, "seed \(random.seed)")
    }
  }
}

/// A source that does what a test tells it.
private final class Puppet: FrameSource {
  struct State {
    var sink: FrameSink?
    var starts = 0
    var stops = 0
    var obeys = true
  }
  let state = Lock(State())
  let patience: FramePatience
  init(_ patience: FramePatience = FramePatience()) { self.patience = patience }

  func start(_ wish: CaptureWish, _ sink: FrameSink) {
    state.withLock {
      $0.sink = sink
      $0.starts += 1
    }
  }
  func stop() {
    let (sink, obeys) = state.withLock { state in
      state.stops += 1
      return (state.sink, state.obeys)
    }
    if obeys { sink?(.ended(nil)) }
  }
  func tell(_ event: SourceEvent) { state.withLock { $0.sink }?(event) }
  var starts: Int { state.withLock { $0.starts } }
  var stops: Int { state.withLock { $0.stops } }
}

/// A camera's frames on their way to those who want them.
@Suite struct FrameFeedTests {
  private let format = FrameFormat(.grey, Size(16, 16), stride: 16)
  private func frame(_ number: UInt32) -> Frame {
    Frame(format, [UInt8](repeating: UInt8(number & 0xFF), count: 256), atNs: UInt64(number + 1), sequence: number)
  }

  private func feed(_ puppet: Puppet, _ loop: EventLoop, warm: Duration = .zero) -> FrameFeed {
    FrameFeed(name: "puppet", warm: warm, loop: loop, use: { _ in }, source: { puppet })
  }

  @Test("two who ask at once get the same frames of one opening")
  func shared() async throws {
    let loop = EventLoop(name: "feed")
    defer { loop.stop() }
    let puppet = Puppet()
    let feed = feed(puppet, loop)
    async let first = feed.subscribe(CaptureWish())
    async let second = feed.subscribe(CaptureWish())
    #expect(await eventually { puppet.starts == 1 })
    puppet.tell(.opened(format))
    let (one, two) = (try await first, try await second)
    puppet.tell(.frame(frame(7)))
    #expect(try await one.next()?.sequence == 7)
    #expect(try await two.next()?.sequence == 7)
    one.end()
    two.end()
    #expect(await eventually { puppet.stops == 1 })
    #expect(puppet.starts == 1)
  }

  @Test("a reader that is slow loses the oldest frames, and memory stays bounded")
  func bounded() async throws {
    let loop = EventLoop(name: "feed")
    defer { loop.stop() }
    let puppet = Puppet()
    let feed = feed(puppet, loop)
    async let opening = feed.subscribe(CaptureWish())
    #expect(await eventually { puppet.starts == 1 })
    puppet.tell(.opened(format))
    let frames = try await opening
    for number in 0..<100 as Range<UInt32> {
      puppet.tell(.frame(frame(number)))
      // The loop has taken it: what is bounded here is the reader's queue.
      _ = await feed.isInUse
    }
    var got: [UInt32] = []
    for _ in 0..<4 { got.append(try #require(try await frames.next()).sequence) }
    #expect(got == Array(96..<100))
  }

  @Test("a camera that goes away in the middle ends its readers with the reason, after what they have not read yet")
  func unplugged() async throws {
    let loop = EventLoop(name: "feed")
    defer { loop.stop() }
    let puppet = Puppet()
    let feed = feed(puppet, loop)
    async let opening = feed.subscribe(CaptureWish())
    #expect(await eventually { puppet.starts == 1 })
    puppet.tell(.opened(format))
    let frames = try await opening
    puppet.tell(.frame(frame(1)))
    puppet.tell(.ended(CameraError(.unplugged, "gone")))
    #expect(try await frames.next()?.sequence == 1)
    #expect(await failure { () throws(CameraError) in try await frames.next() }?.code == .unplugged)
  }

  @Test("a camera that fails just after it was opened says why, and not that nobody wants it")
  func failedAtOnce() async throws {
    let loop = EventLoop(name: "feed")
    defer { loop.stop() }
    let puppet = Puppet()
    let feed = feed(puppet, loop)
    let opening = Task { await failure { () throws(CameraError) in try await feed.subscribe(CaptureWish()).next() } }
    #expect(await eventually { puppet.starts == 1 })
    loop.perform {
      puppet.tell(.opened(format))
      puppet.tell(.ended(CameraError(.unplugged, "gone")))
    }
    #expect(await opening.value?.code == .unplugged)
  }

  @Test("one that opens after it was given up, and does not close, is not waited for either")
  func lateOpening() async throws {
    let loop = EventLoop(name: "feed")
    defer { loop.stop() }
    let puppet = Puppet()
    puppet.state.withLock { $0.obeys = false }
    let feed = feed(puppet, loop)
    let asking = Task { await failure { () throws(CameraError) in try await feed.subscribe(CaptureWish()) } }
    #expect(await eventually { puppet.starts == 1 })
    asking.cancel()
    #expect(await asking.value?.code == .stopped)
    #expect(await eventually { puppet.stops == 1 })
    puppet.tell(.opened(format))
    puppet.tell(.frame(frame(1)))
    #expect(await failure { () throws(CameraError) in try await feed.subscribe(CaptureWish()) }?.code == .stuck)
    puppet.tell(.ended(nil))
  }

  @Test("no opening, no frame, no closing: each wait has an end")
  func deadlines() async throws {
    let loop = EventLoop(name: "feed")
    defer { loop.stop() }
    let silent = Puppet(FramePatience(opening: .seconds(1)))
    let never = self.feed(silent, loop)
    #expect(await failure { () throws(CameraError) in try await never.subscribe(CaptureWish()) }?.code == .stuck)
    #expect(await eventually { silent.stops == 1 })
    let puppet = Puppet(FramePatience(opening: .seconds(60), frame: .seconds(1)))
    let feed = feed(puppet, loop)
    async let opening = feed.subscribe(CaptureWish())
    #expect(await eventually { puppet.starts == 1 })
    puppet.tell(.opened(format))
    let frames = try await opening
    puppet.state.withLock { $0.obeys = false }
    #expect(await failure { () throws(CameraError) in try await frames.next() }?.code == .stuck)
    // It does not close either: who asks meanwhile is told, and does not wait for ever.
    #expect(await failure { () throws(CameraError) in try await feed.subscribe(CaptureWish()) }?.code == .stuck)
    puppet.tell(.ended(nil))
    puppet.state.withLock { $0.obeys = true }
    async let again = feed.subscribe(CaptureWish())
    #expect(await eventually { puppet.starts == 2 })
    puppet.tell(.opened(format))
    (try await again).end()
  }

  @Test("who gives up while it opens is gone, and it is closed again")
  func cancelled() async throws {
    let loop = EventLoop(name: "feed")
    defer { loop.stop() }
    let puppet = Puppet()
    let feed = feed(puppet, loop)
    let asking = Task { await failure { () throws(CameraError) in try await feed.subscribe(CaptureWish()) } }
    #expect(await eventually { puppet.starts == 1 })
    asking.cancel()
    #expect(await asking.value?.code == .stopped)
    #expect(await eventually { puppet.stops == 1 })
  }

  @Test("what an opening says after it was closed is nobody's")
  func late() async throws {
    let loop = EventLoop(name: "feed")
    defer { loop.stop() }
    let puppets = Lock([Puppet(), Puppet()])
    let all = puppets.withLock { $0 }
    let feed = FrameFeed(
      name: "puppets", warm: .zero, loop: loop, use: { _ in }, source: { puppets.withLock { $0.removeFirst() } })
    async let first = feed.subscribe(CaptureWish())
    #expect(await eventually { all[0].starts == 1 })
    all[0].tell(.opened(format))
    (try await first).end()
    #expect(await eventually { all[0].stops == 1 })
    async let second = feed.subscribe(CaptureWish())
    #expect(await eventually { all[1].starts == 1 })
    all[1].tell(.opened(format))
    let frames = try await second
    all[0].tell(.frame(frame(1)))
    all[0].tell(.ended(CameraError(.unplugged, "an old one")))
    all[1].tell(.frame(frame(2)))
    #expect(try await frames.next()?.sequence == 2)
  }

  @Test("a warm camera stays open for a while, and the sign of its use stays too")
  func warm() async throws {
    let loop = EventLoop(name: "feed")
    defer { loop.stop() }
    let puppet = Puppet()
    let uses = Lock<[Bool]>([])
    let feed = FrameFeed(
      name: "puppet", warm: .seconds(2), loop: loop, use: { isOn in uses.withLock { $0.append(isOn) } },
      source: { puppet })
    async let opening = feed.subscribe(CaptureWish())
    #expect(await eventually { puppet.starts == 1 })
    puppet.tell(.opened(format))
    (try await opening).end()
    let again = try await feed.subscribe(CaptureWish())
    #expect(puppet.starts == 1)
    #expect(uses.withLock { $0 } == [true])
    again.end()
    #expect(await eventually { uses.withLock { $0 } == [true, false] })
    #expect(puppet.stops == 1)
  }
}
