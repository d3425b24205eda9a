import DevGateway
import GatewayClient
import GatewayProtocol
import LinkTestSupport
import System
import TestSupport
import Testing

@Suite("A connection that is dead without saying so")
struct DeadLinkTests {
  @Test("is ended when the ticks stop, though pings are answered")
  func ticksStop() async throws {
    var timings = Desk.unhurried
    timings.pingAfter = .milliseconds(60)
    try await withHouse {
      $0.tickInterval = .milliseconds(100)
    } _: { gateway, desk in
      let link = try await desk.connect(gateway.offer(), timings: timings)
      let history = History(link)
      try await eventually("both sockets are up") { await link.status().isComplete }
      await gateway.setTicks(false)
      try await eventually("the missing tick is noticed") { history.wasDown(because: "tick") }
      await gateway.setTicks(true)
      try await gateway.expectAnswer(desk)
      try await eventually("both sockets are up again") { await link.status().isComplete }
    }
  }

  @Test("is ended when nothing answers a ping")
  func halfOpen() async throws {
    var timings = Desk.unhurried
    timings.pingAfter = .milliseconds(80)
    timings.pongDeadline = .milliseconds(80)
    try await withHouse { gateway, desk in
      let link = try await desk.connect(gateway.offer(), timings: timings)
      for _ in 0..<3 {
        try await eventually("both sockets are up") { await link.status().isComplete }
        try await gateway.expectAnswer(desk)
        let history = History(link)
        await gateway.stall(desk.id)
        try await eventually("the silence is noticed") { history.wasDown(because: "no pong") }
        try await gateway.expectAnswer(desk)
      }
    }
  }

  @Test("before hello-ok is given up, and tried again")
  func silentHandshake() async throws {
    var timings = Desk.unhurried
    timings.helloDeadline = .milliseconds(100)
    try await withHouse { gateway, desk in
      await gateway.setAnswersNothing(true)
      let link = try await desk.connect(gateway.offer(), timings: timings)
      let history = History(link)
      try await eventually("it is given up") { history.wasDown(because: "did not answer connect") }
      await gateway.setAnswersNothing(false)
      try await eventually("both sockets are up") { await link.status().isComplete }
    }
  }

  @Test("does not outlive a sleep of the machine, noticed at once or at the next look")
  func sleep() async throws {
    let slept = Lock(Duration.zero)
    let clock: @Sendable () -> Moment = {
      var moment = Moment.now()
      let extra = slept.withLock { $0 }
      moment.sinceBoot += extra
      moment.wallMs += Int64(extra.milliseconds)
      return moment
    }
    var timings = Desk.quick
    timings.pingAfter = .milliseconds(150)
    try await withHouse { gateway, desk in
      let link = try await desk.connect(gateway.offer(), timings: timings, clock: clock)
      for isTold in [true, false] {
        try await eventually("both sockets are up") { await link.status().isComplete }
        // Half-open as after a real sleep: the gateway has gone on without us.
        await gateway.stall(desk.id)
        slept.withLock { $0 += .seconds(3600) }
        if isTold { await link.clockWasSet() }
        try await gateway.expectAnswer(desk)
      }
      // A clock that was only set ends nothing: a sign of life is enough.
      try await eventually("both sockets are up") { await link.status().isComplete }
      let before = await link.status().node
      await link.clockWasSet()
      try await gateway.expectAnswer(desk)
      #expect(await link.status().node == before)
    }
  }

  @Test("cut in the middle of a frame is made anew")
  func midFrame() async throws {
    try await withHouse { gateway, desk in
      let link = try await desk.connect(gateway.offer())
      for _ in 0..<5 {
        try await eventually("both sockets are up") { await link.status().isComplete }
        await gateway.closeInMidFrame(desk.id)
        try await gateway.expectAnswer(desk)
      }
    }
  }
}
