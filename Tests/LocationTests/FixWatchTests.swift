import System
import TestSupport
import Testing

@testable import Location

/// Who gets which answer when: without sockets, without a clock.
@Suite struct FixWatchTests {
  static let gone = LocationError(.unavailable, "gone")

  static func fix(at seconds: Double, accuracy: Double = 5, age: Double = 0) -> Fix {
    Fix(
      latitude: 1, longitude: 2, accuracyMeters: accuracy, isAccuracyStated: true, altitudeMeters: nil, speedMps: nil,
      headingDeg: nil, timeMs: Int64(seconds * 1000), isTimeFromReceipt: false, source: .gps, satellites: nil,
      receivedAt: .seconds(seconds), ageAtReceipt: .seconds(age))
  }

  /// A watch and its moves, at seconds.
  struct Bed {
    var watch = FixWatch(name: "gpsd", linger: .seconds(30))
    private var lastID: UInt64 = 0

    mutating func on(_ event: FixWatch.Event, at seconds: Double) -> [FixWatch.Action] {
      watch.on(event, at: .seconds(seconds))
    }
    /// What happens to those who wait, of all actions; news left out.
    mutating func feed(_ event: FeedEvent, at seconds: Double) -> [FixWatch.Action] {
      on(.feed(event), at: seconds).filter { if case .tell = $0 { false } else { true } }
    }
    mutating func ask(
      at seconds: Double, timeout: Double = 10, maxAge: Double? = nil, detail: Detail = .balanced
    ) -> [FixWatch.Action] {
      lastID += 1
      return on(
        .asked(
          .init(
            id: lastID, askedAt: .seconds(seconds), deadline: .seconds(seconds + timeout),
            maxAge: maxAge.map { .seconds($0) }, detail: detail)), at: seconds)
    }
    /// Open, with a fix each second from `first` to `last`.
    mutating func live(from first: Int, to last: Int) {
      _ = ask(at: Double(first) - 1)
      _ = feed(.opened, at: Double(first) - 0.5)
      for second in first...last {
        _ = feed(.fix(FixWatchTests.fix(at: Double(second)), receiver: "a"), at: Double(second))
      }
    }
  }

  @Test("it is opened for the first who asks, and the first fix answers him")
  func firstFix() {
    var bed = Bed()
    #expect(bed.ask(at: 1) == [.open(.balanced)])
    #expect(bed.feed(.opened, at: 1.1) == [])
    #expect(bed.feed(.receivers(1), at: 1.1) == [])
    #expect(bed.feed(.noFix(receiver: "a"), at: 1.2) == [])
    let fix = Self.fix(at: 2)
    #expect(bed.feed(.fix(fix, receiver: "a"), at: 2) == [.answer(1, fix)])
    #expect(bed.watch.wants.isEmpty)
  }

  @Test("who asks while it can't be opened is refused at once, with the reason")
  func refused() {
    var bed = Bed()
    _ = bed.ask(at: 1)
    #expect(bed.feed(.failed(Self.gone), at: 1.01) == [.refuse(1, Self.gone)])
    #expect(bed.watch.phase == .idle && bed.watch.nextWake == nil)
  }

  @Test("without a receiver it says so at once, to who waits and to who asks later")
  func noReceiver() {
    var bed = Bed()
    _ = bed.ask(at: 1)
    _ = bed.feed(.opened, at: 1)
    guard case .refuse(1, let error)? = bed.feed(.receivers(0), at: 1).first else {
      Issue.record("not refused")
      return
    }
    #expect(error.code == .unavailable)
    #expect(bed.ask(at: 2) == [.refuse(2, error)])
    // One is plugged in.
    _ = bed.feed(.receivers(1), at: 3)
    #expect(bed.ask(at: 4) == [])
    let fix = Self.fix(at: 5)
    #expect(bed.feed(.fix(fix, receiver: "a"), at: 5) == [.answer(3, fix)])
  }

  @Test("nothing ever comes: the answer is a timeout, on time, in whatever it waits for")
  func silence() {
    for steps in 0..<3 {
      var bed = Bed()
      _ = bed.ask(at: 1, timeout: 3)
      if steps > 0 { _ = bed.feed(.opened, at: 1) }
      if steps > 1 { _ = bed.feed(.receivers(1), at: 1) }
      #expect(bed.watch.nextWake == .seconds(4))
      #expect(bed.on(.tick, at: 3.999) == [])
      guard case .refuse(1, let error)? = bed.on(.tick, at: 4).first else {
        Issue.record("not refused")
        return
      }
      #expect(error.code == .timeout)
    }
  }

  @Test("with a live watch the newest fix is the answer while it is younger than 1.5 of the receiver's intervals")
  func fresh() {
    for (age, isFresh) in [(0.0, true), (1.4, true), (1.5, true), (1.6, false)] {
      var bed = Bed()
      bed.live(from: 10, to: 15)
      let actions = bed.ask(at: 15 + age)
      #expect(actions == (isFresh ? [.answer(2, Self.fix(at: 15))] : []), "\(age)")
    }
  }

  @Test("however slow the receiver is, a fix of more than 2 s ago is not the present one")
  func slowReceiver() {
    for (age, isFresh) in [(1.9, true), (2.1, false)] {
      var bed = Bed()
      _ = bed.ask(at: 0)
      _ = bed.feed(.opened, at: 0)
      for second in [8, 16, 24] { _ = bed.feed(.fix(Self.fix(at: Double(second)), receiver: "a"), at: Double(second)) }
      #expect(bed.ask(at: 24 + age).isEmpty == !isFresh, "\(age)")
    }
  }

  @Test("ten fixes a second: one of 0.2 s ago is too old already")
  func fastReceiver() {
    var bed = Bed()
    _ = bed.ask(at: 0)
    _ = bed.feed(.opened, at: 0)
    for tenth in 10...20 { _ = bed.feed(.fix(Self.fix(at: Double(tenth) / 10), receiver: "a"), at: Double(tenth) / 10) }
    #expect(bed.ask(at: 2.14) == [.answer(2, Self.fix(at: 2))])
    #expect(bed.ask(at: 2.2) == [])
  }

  @Test("what a receiver has lost is not served as the present place, however young it is")
  func lost() {
    var bed = Bed()
    bed.live(from: 10, to: 15)
    _ = bed.feed(.noFix(receiver: "a"), at: 15.5)
    #expect(bed.ask(at: 15.6) == [])
    // Who says that it may be older gets it, with its own time.
    #expect(bed.ask(at: 15.7, maxAge: 5) == [.answer(3, Self.fix(at: 15))])
    let again = Self.fix(at: 20)
    #expect(bed.feed(.fix(again, receiver: "a"), at: 20) == [.answer(2, again)])
  }

  @Test("an older answer only for who allows it, and only as old as that, with a second of slack")
  func maxAge() {
    for (maxAge, asked, isAnswered) in [
      (0.0, 15.9, true), (0, 16.1, false), (4, 19.9, true), (4, 20.1, false), (60, 60, true), (nil, 60, false),
    ] as [(Double?, Double, Bool)] {
      var bed = Bed()
      bed.live(from: 10, to: 15)
      let actions = bed.ask(at: asked, maxAge: maxAge)
      #expect((actions == [.answer(2, Self.fix(at: 15))]) == isAnswered, "\(String(describing: maxAge)) at \(asked)")
    }
  }

  @Test("what was kept answers who allows its age, even when the watch is closed by then")
  func kept() {
    var bed = Bed()
    bed.live(from: 10, to: 15)
    #expect(bed.on(.tick, at: 50) == [.close])
    #expect(bed.ask(at: 60, maxAge: 100) == [.answer(2, Self.fix(at: 15))])
    #expect(bed.watch.phase == .idle)
    #expect(bed.ask(at: 61) == [.open(.balanced)])
  }

  @Test("a fix that a service has kept for long is passed over until a present one comes")
  func stale() {
    var bed = Bed()
    _ = bed.ask(at: 1)
    _ = bed.feed(.opened, at: 1)
    #expect(bed.feed(.fix(Self.fix(at: 1.1, age: 600), receiver: "s"), at: 1.1) == [])
    // Its times are whole seconds.
    let fix = Self.fix(at: 3, age: 0.9)
    #expect(bed.feed(.fix(fix, receiver: "s"), at: 3) == [.answer(1, fix)])
  }

  @Test("of two receivers the better one answers, and the loss of one is not the loss of the other")
  func twoReceivers() {
    var bed = Bed()
    _ = bed.ask(at: 0)
    _ = bed.feed(.opened, at: 0)
    let (poor, good) = (Self.fix(at: 1, accuracy: 50), Self.fix(at: 1, accuracy: 3))
    _ = bed.feed(.fix(good, receiver: "good"), at: 1)
    _ = bed.feed(.fix(poor, receiver: "poor"), at: 1)
    #expect(bed.ask(at: 1.2) == [.answer(2, good)])
    _ = bed.feed(.noFix(receiver: "poor"), at: 1.3)
    #expect(bed.ask(at: 1.4) == [.answer(3, good)])
    _ = bed.feed(.noFix(receiver: "good"), at: 1.5)
    _ = bed.feed(.fix(Self.fix(at: 1.6, accuracy: 50), receiver: "poor"), at: 1.6)
    #expect(bed.ask(at: 1.7) == [.answer(4, Self.fix(at: 1.6, accuracy: 50))])
  }

  @Test("who waits when the connection is lost goes on waiting while it is opened again, and gets the fix of then")
  func reopened() {
    var bed = Bed()
    _ = bed.ask(at: 1)
    _ = bed.feed(.opened, at: 1)
    #expect(bed.feed(.failed(Self.gone), at: 2) == [])
    #expect(bed.on(.tick, at: 2.1) == [.open(.balanced)])
    // Not back yet, and then back without its receivers for a moment.
    #expect(bed.feed(.failed(Self.gone), at: 2.11) == [])
    #expect(bed.on(.tick, at: 2.4) == [.open(.balanced)])
    _ = bed.feed(.opened, at: 2.5)
    #expect(bed.feed(.receivers(0), at: 2.5) == [])
    let fix = Self.fix(at: 4)
    #expect(bed.feed(.fix(fix, receiver: "a"), at: 4) == [.answer(1, fix)])
  }

  @Test("who asks only while it is away is refused at the next failure, and does not wait with the others")
  func askedWhileAway() {
    var bed = Bed()
    _ = bed.ask(at: 1)
    _ = bed.feed(.opened, at: 1)
    _ = bed.feed(.failed(Self.gone), at: 2)
    #expect(bed.ask(at: 2.05) == [.open(.balanced)])
    #expect(bed.feed(.failed(Self.gone), at: 2.06) == [.refuse(2, Self.gone)])
    #expect(bed.watch.wants.map(\.id) == [1])
    guard case .refuse(1, let error)? = bed.on(.tick, at: 11).first else {
      Issue.record("not refused")
      return
    }
    #expect(error.code == .timeout)
  }

  @Test("it rests longer and longer between tries, two seconds at most")
  func backOff() {
    var bed = Bed()
    _ = bed.on(.followed(9, detail: .precise), at: 0)
    var now = 0.0
    var rests: [Duration] = []
    for _ in 0..<8 {
      _ = bed.feed(.failed(Self.gone), at: now)
      guard case .resting(let until) = bed.watch.phase else {
        Issue.record("it does not rest")
        return
      }
      rests.append(until - .seconds(now))
      now = until.inSeconds + 0.001
      _ = bed.on(.tick, at: now)
    }
    let milliseconds = rests.map { Int($0.milliseconds.rounded()) }
    #expect(milliseconds == [100, 200, 400, 800, 1600, 2000, 2000, 2000])
  }

  @Test("it closes when nobody has asked for the time it lingers, and not before")
  func lingers() {
    var bed = Bed()
    bed.live(from: 10, to: 10)
    #expect(bed.watch.nextWake == .seconds(39))
    _ = bed.ask(at: 12, maxAge: 100)
    #expect(bed.on(.tick, at: 39.5) == [])
    #expect(bed.on(.tick, at: 42) == [.close])
    #expect(bed.watch.phase == .idle && bed.watch.nextWake == nil)
  }

  @Test("a follower keeps it open, and when he has gone it lingers from then")
  func followed() {
    var bed = Bed()
    #expect(bed.on(.followed(1, detail: .precise), at: 0) == [.open(.precise)])
    _ = bed.feed(.opened, at: 0)
    #expect(bed.on(.tick, at: 1000) == [] && bed.watch.nextWake == nil)
    let fix = Self.fix(at: 1001)
    #expect(bed.on(.feed(.fix(fix, receiver: "a")), at: 1001) == [.tell(.fix(fix, receiver: "a"))])
    #expect(bed.on(.unfollowed(1), at: 1002) == [])
    #expect(bed.on(.tick, at: 1032) == [.close])
  }

  @Test("a finer question opens it again, finer; a coarser one does not")
  func finer() {
    var bed = Bed()
    #expect(bed.ask(at: 0, detail: .coarse) == [.open(.coarse)])
    _ = bed.feed(.opened, at: 0)
    #expect(bed.ask(at: 1, detail: .precise) == [.close, .open(.precise)])
    _ = bed.feed(.opened, at: 1)
    #expect(bed.ask(at: 2, detail: .balanced) == [])
    // A receiver gives what it has.
    bed.watch = FixWatch(name: "gpsd", linger: .seconds(30), hasDetail: false)
    #expect(bed.ask(at: 3, detail: .coarse) == [.open(.coarse)])
    #expect(bed.ask(at: 3, detail: .precise) == [])
  }

  @Test("more than 64 do not wait")
  func bounded() {
    var bed = Bed()
    for _ in 0..<FixWatch.limit { _ = bed.ask(at: 0) }
    #expect(bed.ask(at: 0) == [.refuse(65, .tooMany)])
    #expect(bed.watch.wants.count == FixWatch.limit)
  }

  @Test("at the end all are refused, and nobody is served any more")
  func stopped() {
    var bed = Bed()
    _ = bed.ask(at: 0)
    #expect(bed.on(.stopped, at: 1) == [.refuse(1, .stopped), .close])
    #expect(bed.ask(at: 2) == [.refuse(2, .stopped)])
    #expect(bed.watch.nextWake == nil)
  }

  @Test(
    "in any order of events: each asker gets one answer, on time, fit for what he asked; nothing is open for nobody")
  func walk() {
    var random = SeededRandom()
    for _ in 0..<200 {
      var watch = FixWatch(name: "gpsd", linger: .seconds(5))
      var now: Duration = .seconds(1000)
      var asked: [UInt64: FixWatch.Want] = [:]
      var isOpen = false
      var lastNoFix: [String: Duration] = [:]
      for id in 1...300 as ClosedRange<UInt64> {
        now += .milliseconds(random.below(400))
        let receiver = ["a", "b", "c"][random.below(3)]
        let event: FixWatch.Event
        switch random.below(10) {
        case 0, 1:
          let want = FixWatch.Want(
            id: id, askedAt: now, deadline: now + .milliseconds(random.below(3000) + 1),
            maxAge: random.below(2) == 0 ? nil : .milliseconds(random.below(5000)),
            detail: [.coarse, .balanced, .precise][random.below(3)])
          asked[id] = want
          event = .asked(want)
        case 2: event = .feed(isOpen ? .opened : .noFix(receiver: receiver))
        case 3, 4, 5:
          var fix = Self.fix(at: now.inSeconds, accuracy: Double(random.below(50) + 1), age: Double(random.below(4)))
          fix.receivedAt = now
          event = .feed(.fix(fix, receiver: receiver))
        case 6:
          lastNoFix[receiver] = now
          event = .feed(.noFix(receiver: receiver))
        case 7: event = .feed(.receivers(random.below(3)))
        case 8: event = isOpen ? .feed(.failed(Self.gone)) : .tick
        default:
          if let wake = watch.nextWake { now = max(now, wake) }
          event = .tick
        }
        if case .feed(.failed) = event { isOpen = false }
        for action in watch.on(event, at: now) {
          switch action {
          case .open:
            #expect(!isOpen, "opened twice, seed \(random.seed)")
            isOpen = true
          case .close:
            #expect(isOpen, "closed twice, seed \(random.seed)")
            isOpen = false
          case .answer(let id, let fix):
            guard let want = asked.removeValue(forKey: id) else {
              Issue.record("answered twice, seed \(random.seed)")
              continue
            }
            let oldest = want.askedAt - (want.maxAge ?? .seconds(1)) - .seconds(1)
            #expect(fix.measuredAt >= oldest, "too old, seed \(random.seed)")
          case .refuse(let id, _):
            #expect(asked.removeValue(forKey: id) != nil, "answered twice, seed \(random.seed)")
          case .tell: break
          }
        }
        for want in asked.values {
          #expect(want.deadline > now, "late, seed \(random.seed)")
          #expect(watch.nextWake.map { $0 <= want.deadline } == true, "nothing wakes it, seed \(random.seed)")
        }
      }
      now += .seconds(60)
      for _ in 0..<3 {
        for action in watch.on(.tick, at: now) { if action == .close { isOpen = false } }
        if case .opening = watch.phase {
          _ = watch.on(.feed(.failed(Self.gone)), at: now)
          isOpen = false
        }
      }
      #expect(!isOpen && watch.phase == .idle && watch.wants.isEmpty, "open for nobody, seed \(random.seed)")
    }
  }
}
