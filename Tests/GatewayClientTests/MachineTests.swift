import Testing

@testable import GatewayClient

/// A machine with a clock that the test turns.
private struct Bench {
  var machine: ConnectionMachine
  var moment = Moment(monotonic: .seconds(1000), sinceBoot: .seconds(1000), wallMs: 1_767_225_600_000)

  init(_ timings: LinkTimings = LinkTimings()) { machine = ConnectionMachine(timings: timings) }

  mutating func pass(_ time: Duration) {
    moment.monotonic += time
    moment.sinceBoot += time
    moment.wallMs += Int64(time.milliseconds)
  }

  mutating func sleep(_ time: Duration) {
    moment.sinceBoot += time
    moment.wallMs += Int64(time.milliseconds)
  }

  @discardableResult
  mutating func on(_ event: ConnectionMachine.Event, jitter: Double = 0.5) -> [ConnectionMachine.Action] {
    machine.on(event, at: moment, jitter: jitter)
  }

  /// Goes to `connected` from anywhere.
  mutating func connect(tick: Duration = .seconds(30)) {
    on(.start)
    if case .resting(let until) = machine.phase {
      pass(until - moment.monotonic)
      on(.timer(lastActivity: .zero))
    }
    on(.opened)
    on(.welcomed(tick: tick))
  }

  mutating func delay(after course: ConnectVerdict.Course, jitter: Double = 0.5) -> Duration? {
    let actions = on(.ended(course), jitter: jitter)
    for case .arm(let delay?) in actions { return delay }
    return actions.contains { if case .open = $0 { true } else { false } } ? .zero : nil
  }
}

private let lost = ConnectVerdict.Course.retry(.backOff, reason: "lost")
private func wait(paused: Bool = false) -> ConnectVerdict.Course {
  .wait(PairingWait(requestID: "r", reason: "not-paired", isPaused: paused))
}
private func milliseconds(_ durations: [Duration?]) -> [Int?] {
  durations.map { $0.map { Int($0.milliseconds.rounded()) } }
}

@Suite("A connection's life")
struct MachineTests {
  @Test("begins when it is told to, once")
  func begins() {
    var bench = Bench()
    #expect(bench.on(.timer(lastActivity: .zero)) == [])
    #expect(bench.on(.start) == [.arm(nil), .open(attempt: 1)])
    #expect(bench.on(.start) == [])
    #expect(bench.on(.opened) == [.arm(.seconds(15))])
    #expect(bench.on(.welcomed(tick: .seconds(30))) == [.arm(.seconds(15))])
    #expect(bench.on(.stop) == [.close(code: 1000, reason: ""), .arm(nil)])
    #expect(bench.machine.phase == .idle)
    #expect(bench.on(.ended(lost)) == [])
  }

  @Test("doubles the pause from half a second to half a minute")
  func backOff() {
    var bench = Bench()
    bench.on(.start)
    var delays: [Duration?] = []
    for _ in 0..<9 {
      delays.append(bench.delay(after: lost))
      bench.pass(.seconds(40))
      bench.on(.timer(lastActivity: .zero))
    }
    #expect(milliseconds(delays) == [500, 1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000])
    #expect(milliseconds([bench.delay(after: lost, jitter: 0)]) == [24000])
    bench.pass(.seconds(40))
    bench.on(.timer(lastActivity: .zero))
    #expect(milliseconds([bench.delay(after: lost, jitter: 1)]) == [30000])
  }

  @Test("forgets its failures only after a session that lasted")
  func stableSession() {
    var bench = Bench()
    bench.on(.start)
    for _ in 0..<4 {
      _ = bench.delay(after: lost)
      bench.pass(.seconds(40))
      bench.on(.timer(lastActivity: .zero))
    }
    bench.on(.opened)
    bench.on(.welcomed(tick: .seconds(30)))
    bench.pass(.seconds(29))
    #expect(milliseconds([bench.delay(after: lost)]) == [8000])
    bench.connect()
    bench.pass(.seconds(30))
    #expect(milliseconds([bench.delay(after: lost)]) == [500])
    bench.pass(.seconds(1))
    #expect(bench.on(.timer(lastActivity: .zero)) == [.arm(nil), .open(attempt: 1)])
  }

  @Test("comes back at once from a restart, but not in a circle")
  func atOnce() {
    var bench = Bench()
    bench.connect()
    bench.pass(.seconds(60))
    let restart = ConnectVerdict.Course.retry(.now, reason: "service restart")
    #expect(bench.delay(after: restart) == .zero)
    bench.on(.opened)
    bench.on(.welcomed(tick: .seconds(30)))
    #expect(milliseconds([bench.delay(after: restart)]) == [500])
    bench.connect()
    bench.pass(.seconds(60))
    #expect(bench.delay(after: restart) == .zero)
  }

  @Test("waits as long as the gateway says, and long where asking can't help")
  func pace() {
    var bench = Bench()
    bench.on(.start)
    #expect(bench.delay(after: .retry(.after(.milliseconds(700)), reason: "starting")) == .milliseconds(700))
    bench.pass(.seconds(1))
    bench.on(.timer(lastActivity: .zero))
    #expect(bench.delay(after: .retry(.slow, reason: "denied"), jitter: 1) == .seconds(30))
    bench.pass(.seconds(31))
    bench.on(.timer(lastActivity: .zero))
    // Neither counts as a failure.
    #expect(milliseconds([bench.delay(after: lost)]) == [500])
  }

  @Test("asks for an approval every 2 s at first, and for ever at least every 15 s")
  func approval() {
    var bench = Bench()
    bench.on(.start)
    var delays: [Int] = []
    for _ in 0..<500 {
      delays.append(Int((bench.delay(after: wait(), jitter: 1) ?? .zero).milliseconds))
      bench.pass(.seconds(15))
      #expect(bench.on(.timer(lastActivity: .zero)).contains { if case .open = $0 { true } else { false } })
    }
    #expect(delays.prefix(30).allSatisfy { $0 == 2000 })
    #expect(delays.allSatisfy { (2000...15000).contains($0) } && delays.last == 15000)
    #expect(zip(delays, delays.dropFirst()).allSatisfy { $0 <= $1 })
  }

  @Test("asks every 15 s when the gateway asks for a pause")
  func pausedApproval() {
    var bench = Bench()
    bench.on(.start)
    let delay = bench.delay(after: wait(paused: true), jitter: 1)
    #expect(delay.map { $0 > .seconds(10) && $0 <= .seconds(15) } == true)
  }

  @Test("stays stopped until a person begins it again")
  func stopped() {
    var bench = Bench()
    bench.on(.start)
    let stop = Stop(code: "X", summary: "s", remedy: "r")
    #expect(bench.on(.ended(.stop(stop))) == [.arm(nil)])
    bench.pass(.seconds(100_000))
    bench.sleep(.seconds(100_000))
    for event in [.timer(lastActivity: .zero), .clockSet, .reopen, .received, .ended(lost)] as [ConnectionMachine.Event]
    {
      #expect(bench.on(event) == [])
    }
    #expect(bench.machine.phase == .stopped)
    #expect(bench.on(.start) == [.arm(nil), .open(attempt: 1)])
    #expect(bench.on(.halt) == [.close(code: 1000, reason: ""), .arm(nil)])
    #expect(bench.machine.phase == .stopped)
  }

  @Test("gives up on a gateway that does not answer connect")
  func helloDeadline() {
    var bench = Bench()
    bench.on(.start)
    bench.on(.opened)
    bench.pass(.seconds(10))
    #expect(bench.on(.timer(lastActivity: bench.moment.monotonic)) == [.arm(.seconds(5))])
    bench.pass(.seconds(5))
    let actions = bench.on(.timer(lastActivity: bench.moment.monotonic))
    #expect(actions.first == .drop("the gateway did not answer connect"))
    guard case .resting = bench.machine.phase else {
      Issue.record("\(bench.machine.phase)")
      return
    }
  }

  @Test("pings only when nothing has come, and looks twice a tick at most")
  func idle() {
    var bench = Bench()
    bench.connect()
    var pings = 0
    var timers = 0
    var lastActivity = bench.moment.monotonic
    var next: Duration? = .seconds(15)
    // Ten minutes with a tick every 30 s and pongs: the gateway is there.
    let end = bench.moment.monotonic + .seconds(600)
    var nextTick = bench.moment.monotonic + .seconds(30)
    while bench.moment.monotonic < end, let wait = next {
      let due = bench.moment.monotonic + wait
      while nextTick <= due {
        bench.pass(nextTick - bench.moment.monotonic)
        lastActivity = bench.moment.monotonic
        bench.on(.received)
        nextTick += .seconds(30)
      }
      bench.pass(due - bench.moment.monotonic)
      timers += 1
      next = nil
      for action in bench.on(.timer(lastActivity: lastActivity)) {
        switch action {
        case .ping:
          pings += 1
          lastActivity = bench.moment.monotonic
          bench.on(.ponged)
        case .arm(let delay): next = delay
        default: Issue.record("\(action)")
        }
      }
    }
    #expect((18...21).contains(pings), "one between two ticks: \(pings)")
    #expect(timers <= 42, "\(timers)")
  }

  @Test("ends a connection whose tick is missing, also when pings are answered")
  func tickMissing() {
    var bench = Bench()
    bench.connect(tick: .seconds(10))
    var lastActivity = bench.moment.monotonic
    var closed: Duration?
    let start = bench.moment.monotonic
    for _ in 0..<60 where closed == nil {
      bench.pass(.seconds(1))
      for action in bench.on(.timer(lastActivity: lastActivity)) {
        if case .ping = action {
          lastActivity = bench.moment.monotonic
          bench.pass(.milliseconds(1))
          bench.on(.ponged)
        }
        if action == .close(code: 4000, reason: "tick timeout") { closed = bench.moment.monotonic - start }
      }
    }
    #expect(closed.map { $0 >= .seconds(20) && $0 < .seconds(22) } == true)
  }

  @Test("is patient with a long message on its way")
  func longMessage() {
    var bench = Bench()
    bench.connect(tick: .seconds(10))
    for _ in 0..<200 {
      bench.pass(.seconds(1))
      let actions = bench.on(.timer(lastActivity: bench.moment.monotonic))
      #expect(!actions.contains { if case .close = $0 { true } else { false } })
    }
  }

  @Test("takes a tick of next to nothing for a second")
  func hostileTick() {
    var bench = Bench()
    bench.connect(tick: .zero)
    bench.pass(.milliseconds(1500))
    #expect(!bench.on(.timer(lastActivity: .zero)).contains(.close(code: 4000, reason: "tick timeout")))
    bench.pass(.milliseconds(600))
    #expect(bench.on(.timer(lastActivity: .zero)).contains(.close(code: 4000, reason: "tick timeout")))
  }

  @Test("does not outlive a sleep of the machine, whatever it was doing")
  func sleep() {
    var bench = Bench()
    bench.connect()
    bench.sleep(.seconds(120))
    #expect(bench.on(.clockSet) == [.drop("the machine slept"), .arm(nil), .open(attempt: 2)])
    bench.sleep(.seconds(120))
    #expect(bench.on(.timer(lastActivity: .zero)) == [.drop("the machine slept"), .arm(nil), .open(attempt: 3)])
    for _ in 0..<6 {
      _ = bench.delay(after: lost)
      bench.pass(.seconds(40))
      bench.on(.timer(lastActivity: .zero))
    }
    _ = bench.delay(after: lost)
    bench.sleep(.seconds(120))
    #expect(bench.on(.clockSet).contains { if case .open = $0 { true } else { false } })
    // And the pauses begin anew: the failures were those of another place.
    #expect(milliseconds([bench.delay(after: lost)]) == [500])
  }

  @Test("asks for a sign of life when the clock was set or the sleep was short")
  func shortSleep() {
    var bench = Bench()
    bench.connect()
    bench.sleep(.seconds(5))
    #expect(bench.on(.clockSet) == [.ping(deadline: .seconds(3))])
    #expect(bench.on(.clockSet) == [])
    bench.on(.ponged)
    bench.moment.wallMs += 3_600_000
    #expect(bench.on(.clockSet) == [.ping(deadline: .seconds(3))])
  }

  @Test("declares itself anew without a pause")
  func reopen() {
    var bench = Bench()
    #expect(bench.on(.reopen) == [])
    bench.connect()
    #expect(bench.on(.reopen) == [.close(code: 1000, reason: "surface changed"), .arm(nil), .open(attempt: 2)])
    bench.on(.ended(lost))
    #expect(bench.on(.reopen) == [])
  }

  /// Whatever happens: nothing is opened twice, nothing that rests is without a timer, nothing stopped moves.
  @Test("keeps its promises in any order of events")
  func randomWalk() {
    var random = seeded()
    for _ in 0..<300 {
      var bench = Bench()
      var isOpen = false
      var timerDue: Duration?
      for _ in 0..<200 {
        let events: [ConnectionMachine.Event] = [
          .start, .stop, .opened, .welcomed(tick: .seconds(30)), .ended(lost), .ended(wait()),
          .ended(.stop(Stop(code: "x", summary: "s", remedy: "r"))), .ended(.retry(.now, reason: "restart")), .received,
          .ponged,
          .timer(lastActivity: bench.moment.monotonic), .timer(lastActivity: .zero), .reopen, .clockSet, .halt,
        ]
        let event = events.randomElement(using: &random)!
        let before = bench.machine.phase
        if case .ended = event { isOpen = false }
        if case .timer = event { timerDue = nil }
        for action in bench.on(event, jitter: .random(in: 0...1, using: &random)) {
          switch action {
          case .open:
            #expect(!isOpen, "two connections at once after \(event) in \(before)")
            isOpen = true
          case .close, .drop:
            #expect(isOpen, "nothing to close after \(event) in \(before)")
            isOpen = false
          case .ping: #expect(isOpen)
          case .arm(let delay):
            #expect(delay.map { $0 > .zero } ?? true)
            timerDue = delay.map { bench.moment.monotonic + $0 }
          }
        }
        switch bench.machine.phase {
        case .idle, .stopped: #expect(!isOpen && timerDue == nil)
        case .resting(let until): #expect(!isOpen && timerDue.map { $0 <= until + .seconds(1) } == true)
        case .connecting, .connected: #expect(isOpen)
        }
        if case .connected = bench.machine.phase, case .timer = event { #expect(timerDue != nil, "\(before)") }
        bench.pass(.milliseconds(Int.random(in: 1...40_000, using: &random)))
        if Int.random(in: 0..<10, using: &random) == 0 {
          bench.sleep(.seconds(Int.random(in: 1...100, using: &random)))
        }
      }
    }
  }
}
