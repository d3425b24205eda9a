import GatewayProtocol
import Glibc
import Health
import NodeKit
import System
import TestSupport
import Testing

@testable import HealthModule

@Suite("health.summary") struct HealthModuleTests {
  private let folder = TemporaryFolder()
  private let zone = ZoneRules(named: "Europe/Berlin")!
  /// 2026-05-02 20:00 in Berlin.
  private let now: Int64 = 1_777_744_800_000

  private func desk(_ paths: [String]? = nil, index: Bool = false) -> HealthDesk {
    let (zone, now) = (zone, now)
    return HealthDesk(
      .init(
        paths: paths ?? [folder("files")], zone: { zone }, index: index ? folder("state/health.index") : nil,
        now: { now }))
  }

  private func ask(_ desk: HealthDesk, _ params: String?) async throws -> JSON {
    let invocation = Invocation(
      id: "1", command: "health.summary", paramsText: params.map { Array($0.utf8) }, origin: .local,
      deadline: Monotonic.now() + .seconds(60), payloadLimit: 1 << 20)
    guard case .json(let json) = try await HealthModule(desk: desk).handle(invocation) else { return .null }
    return json
  }

  private func tell(_ rows: String, in name: String = "day.csv") throws {
    try folder.write("files/" + name, "kind,start,end,value,source\n" + rows)
  }

  @Test("today's figures in the documented form, from midnight to now")
  func summary() async throws {
    try tell(
      """
      steps,2026-05-02T07:00,2026-05-02T08:00,3120,watch
      asleep,2026-05-01T23:00,2026-05-02T06:30,,watch
      resting_heart_rate,2026-05-02T06:30,,57.36,watch
      workout,2026-05-02T17:00,2026-05-02T18:00,45.4,watch
      steps,2026-05-02T21:00,2026-05-02T22:00,500,watch
      """)
    #expect(
      try await ask(desk(), #"{"period":"today"}"#) == [
        "period": "today", "startISO": "2026-05-01T22:00:00Z", "endISO": "2026-05-02T18:00:00Z",
        "timeZoneIdentifier": "Europe/Berlin", "stepCount": 3120, "sleepDurationMinutes": 390,
        "restingHeartRateBpm": 57.4, "workoutCount": 1, "workoutDurationMinutes": 45,
      ])
  }

  @Test("a figure that nobody recorded is left out, with no files all of them are")
  func omitted() async throws {
    let frame: JSON = [
      "period": "today", "startISO": "2026-05-01T22:00:00Z", "endISO": "2026-05-02T18:00:00Z",
      "timeZoneIdentifier": "Europe/Berlin",
    ]
    #expect(try await ask(desk(), #"{"period":"today"}"#) == frame)
    try tell("asleep,2026-05-02T01:00,2026-05-02T02:00,,watch\n")
    let day = try await ask(desk(), #"{"period":"today","more":1}"#)
    #expect(day["sleepDurationMinutes"] == 60 && day["stepCount"] == nil && day["workoutCount"] == nil)
  }

  @Test(
    "anything but today is an invalid request in the documented words",
    arguments: [
      nil, "", "{}", "null", "[]", #"{"period":"7d"}"#, #"{"period":"Today"}"#, #"{"period":null}"#,
      #"{"period":"today""#, #""today""#,
    ])
  func invalid(_ params: String?) async throws {
    do {
      _ = try await ask(desk(), params)
      Issue.record("it was answered")
    } catch let error as CommandError {
      #expect(error.json["message"] == "INVALID_REQUEST: period must be today" && error.code == "INVALID_REQUEST")
    }
  }

  @Test("it is off until switched on, and then refused in the documented words before anything is read")
  func consent() async throws {
    #expect(!HealthModule.consent.isOnByDefault)
    #expect(HealthModule.consent.refusal.json["code"] == "HEALTH_ACCESS_DISABLED")
    let command = try #require(HealthModule(desk: desk()).commands.first)
    #expect(command.gatewayDefault == .dangerous && command.consent == HealthModule.consent && command.isShown)
  }

  @Test("a damaged file beside a good one: the good one is told, the daemon lives")
  func damaged() async throws {
    try tell("steps,2026-05-02T07:00,2026-05-02T08:00,100,watch\n")
    try folder.write("files/export.zip", "PK\u{3}\u{4} and then nothing that makes sense")
    try folder.write("files/health_connect_export.db", "SQLite format 3\0 and then nothing that makes sense")
    try folder.write("files/walk.fit", "no fit file")
    #expect(try await ask(desk(), #"{"period":"today"}"#)["stepCount"] == 100)
    let days = try await desk().days(to: nil, count: 14)
    let damage = days.evidence.flatMap { file in file.remarks.map { "\(file.file): \($0.sentence)" } }
    for name in ["export.zip", "health_connect_export.db", "walk.fit"] {
      #expect(damage.contains { $0.contains(name) }, "\(damage)")
    }
    #expect(days.days.count == 14 && days.days.last?.summary.stepCount == 100)
  }

  @Test("the index is the owner's alone, and switching off removes it")
  func forget() async throws {
    try tell("steps,2026-05-02T07:00,2026-05-02T08:00,100,watch\n")
    let desk = desk(index: true)
    #expect(try await desk.today().summary.stepCount == 100)
    var status = stat()
    #expect(stat(folder("state/health.index"), &status) == 0 && status.st_mode & 0o777 == 0o600)
    #expect(try await desk.today().summary.stepCount == 100)
    await HealthModule(desk: desk).forget()
    #expect(!Files.exists(folder("state/health.index")))
  }

  @Test(
    "switched off by another process while the files are read, no index is kept, nor one that is being written then")
  func switchedOffMeanwhile() async throws {
    try tell("steps,2026-05-02T07:00,2026-05-02T08:00,100,watch\n")
    let (zone, now) = (zone, now)
    for asked in 0...2 {
      let answers = Lock(0)
      let desk = HealthDesk(
        .init(
          paths: [folder("files")], zone: { zone }, index: folder("state/health.index"), scratch: folder("unpacked"),
          mayKeep: {
            answers.withLock { count in
              count += 1
              return count <= asked
            }
          }, now: { now }))
      #expect(try await desk.today().summary.stepCount == 100)
      #expect(Files.exists(folder("state/health.index")) == (asked == 2))
    }
  }

  @Test("what a killed process left unpacked is removed by the next reading, at the start and when it is switched off")
  func leftUnpacked() async throws {
    let (zone, now) = (zone, now)
    let desk = HealthDesk(
      .init(paths: [folder("files")], zone: { zone }, scratch: folder("unpacked"), now: { now }))
    let left = "unpacked/talknode-health-0123456789abcdef"
    try folder.write(left, "what somebody recorded")
    try folder.write("unpacked/other", "none of ours")
    _ = try await desk.today()
    #expect(Files.list(folder("unpacked")) == ["other"])
    try folder.write(left, "what somebody recorded")
    desk.tidy()
    #expect(Files.list(folder("unpacked")) == ["other"])
    try folder.write(left, "what somebody recorded")
    await desk.forget()
    #expect(Files.list(folder("unpacked")) == ["other"])
  }

  @Test("many askers at once are all answered; one that goes away is not waited for")
  func concurrent() async throws {
    try tell((0..<2000).map { "steps,2026-05-02T07:00,2026-05-02T08:00,\($0 % 5 + 1),watch \($0 % 50)\n" }.joined())
    let desk = desk()
    try await withThrowingTaskGroup(of: Int?.self) { group in
      for _ in 0..<8 { group.addTask { try await desk.today().summary.stepCount } }
      var answers: Set<Int?> = []
      for try await answer in group { answers.insert(answer) }
      #expect(answers.count == 1)
    }
    let asker = Task { try await desk.today() }
    asker.cancel()
    _ = await asker.result
    #expect(try await desk.today().summary.stepCount != nil)
  }

  @Test("whether there are files is told, with what to do")
  func availability() async throws {
    guard case .absent(let reason, let remedy) = desk().availability() else {
      Issue.record("it is ready without files")
      return
    }
    #expect(reason.contains(folder("files")) && remedy?.contains("[health] files") == true)
    try tell("")
    #expect(desk().availability() == .ready && desk([folder("files/day.csv")]).availability() == .ready)
  }
}
