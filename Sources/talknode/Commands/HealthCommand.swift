import Configuration
import GatewayProtocol
import Health
import HealthModule
import NodeKit
import System

enum HealthCommand {
  private static let day = Option("day", value: "YYYY-MM-DD", "another day than today")
  private static let from = Option("from", value: "PATH", "a file or folder, in place of those in the settings")
  private static let explain = Option("explain", "which files were used, what was merged or left out, and why")

  static let verb = Verb(
    "health", "a day's steps, sleep, resting heart rate and workouts, and the two weeks before",
    options: [day, from, explain, .json, .config],
    notes: [
      """
      Reads the files named in the settings, here and now, whether or not agents may ask. What it shows stays on this machine; \
      --explain never goes to a gateway.
      """
    ], run: run)

  static let shownDays = 14

  private static func run(_ arguments: Arguments, _ terminal: Terminal) async throws(Failure) -> ExitStatus {
    let context = Context(arguments, terminal)
    var settings = try context.settings().health
    var date: CivilDate?
    if let text = arguments[day] {
      date = CivilDate(text)
      if date == nil { throw .usage("--day takes a day of the calendar.", remedy: "--day 2026-05-02") }
    }
    if let paths = arguments.values[from.name] { settings.files = paths }
    let isOn = SwitchStore(path: context.instance.switches).isEnabled(HealthModule.consent)
    // An index is for the ones who use it again: those who share, and not for a file named once.
    let desk = HealthDesk(
      .init(settings, context.instance, context.environment, keepsIndex: isOn && !arguments.has(from)))
    let answer: HealthDesk.Days
    do throws(HealthError) { answer = try await desk.days(to: date, count: shownDays) } catch {
      throw Failure("HEALTH_FILES", "The health files were not read.", cause: error.description, exit: .temporary)
    }
    if answer.evidence.allSatisfy({ $0.format == "none" }), case .absent(let reason, let remedy) = desk.availability() {
      throw Failure("HEALTH_FILES", reason, remedy: remedy, exit: .noInput)
    }
    let report = HealthReport(answer)
    if context.wantsJSON {
      terminal.print(report.json(explains: arguments.has(explain)))
    } else {
      report.show(on: terminal, explains: arguments.has(explain))
      if !isOn { terminal.note("Agents can't ask for it: talknode capabilities enable health") }
    }
    return .ok
  }
}

/// What is told about a day.
struct HealthReport {
  private let days: [DayReckoning]
  private let evidence: [FileEvidence]
  private var day: DayReckoning { days[days.count - 1] }

  init(_ answer: HealthDesk.Days) {
    days = answer.days
    evidence = answer.evidence
  }

  // MARK: For programs

  func json(explains: Bool) -> JSON {
    .object(present: [
      "day": .string(day.window.date.description),
      "startISO": .string(day.window.startISO), "endISO": .string(day.window.endISO),
      "timeZoneIdentifier": .string(day.window.zone.identifier),
      "summary": Self.json(day),
      "days": .array(days.map(Self.json)),
      "explanation": explains ? .strings(day.explanation) : nil,
      "files": explains ? .array(evidence.map(Self.json)) : nil,
    ])
  }

  private static func json(_ day: DayReckoning) -> JSON {
    .object(present: [
      "day": .string(day.window.date.description),
      "stepCount": day.summary.stepCount.map { .int(Int64($0)) },
      "sleepDurationMinutes": day.summary.sleepMinutes.map { .int(Int64($0)) },
      "restingHeartRateBpm": day.summary.restingHeartRate.map(JSON.double),
      "workoutCount": day.summary.workoutCount.map { .int(Int64($0)) },
      "workoutDurationMinutes": day.summary.workoutMinutes.map { .int(Int64($0)) },
    ])
  }

  private static func json(_ file: FileEvidence) -> JSON {
    [
      "file": .string(file.file), "format": .string(file.format), "records": .int(Int64(file.records.count)),
      "sources": .strings(file.sources.map(\.name)), "fromIndex": .bool(file.isFromIndex),
      "remarks": .strings(file.remarks.map(\.sentence)),
    ]
  }

  // MARK: For a person

  func show(on terminal: Terminal, explains: Bool) {
    terminal.print(
      terminal.styled("\(Self.weekday(day.window.date)) \(day.window.date), \(day.window.zone.identifier)", .strong))
    let summary = day.summary
    if summary.isEmpty {
      terminal.print("  Nothing was recorded, as far as the files tell.")
    } else {
      var rows: [[String]] = []
      if let steps = summary.stepCount { rows.append(["  steps", Self.grouped(steps)]) }
      if let minutes = summary.sleepMinutes { rows.append(["  asleep", Self.span(minutes)]) }
      if let rate = summary.restingHeartRate { rows.append(["  resting heart rate", "\(rate) beats/min"]) }
      if let count = summary.workoutCount {
        rows.append(["  workouts", "\(count), \(Self.span(summary.workoutMinutes ?? 0))"])
      }
      terminal.print(table: rows)
    }
    terminal.print("")
    chart(on: terminal)
    if explains { explain(on: terminal) }
  }

  /// A row a day: how many steps as a bar, and the other figures.
  private func chart(on terminal: Terminal) {
    let most = days.compactMap(\.summary.stepCount).max() ?? 0
    let width = 30
    terminal.print(
      table: [["", "day", "steps", "", "asleep", "rest", "workouts"]]
        + days.map { day in
          let summary = day.summary
          let steps = summary.stepCount.map { Self.bar($0, of: most, width) } ?? ""
          return [
            day.window.date == self.day.window.date ? "→" : "",
            "\(Self.weekday(day.window.date).prefix(2)) \(day.window.date.description.dropFirst(5))",
            steps + String(repeating: " ", count: width - steps.count), summary.stepCount.map(Self.grouped) ?? "–",
            summary.sleepMinutes.map(Self.span) ?? "–", summary.restingHeartRate.map { "\($0)" } ?? "–",
            summary.workoutCount.map { "\($0), \(Self.span(summary.workoutMinutes ?? 0))" } ?? "–",
          ]
        })
  }

  private func explain(on terminal: Terminal) {
    terminal.print("")
    terminal.print(terminal.styled("How \(day.window.date) came about", .strong))
    for sentence in day.explanation { terminal.print("  \(sentence)") }
    if day.explanation.isEmpty { terminal.print("  No file tells anything about that day.") }
    terminal.print("")
    terminal.print(terminal.styled("Files", .strong))
    if evidence.isEmpty { terminal.print("  None was found that is known.") }
    for file in evidence {
      let what = file.format == "none" ? "" : "  \(file.format), \(file.records.count) records of these days"
      terminal.print("  \(file.file)\(what)\(file.isFromIndex ? ", by the index" : "")")
      for remark in file.remarks {
        terminal.print("      " + terminal.styled(remark.sentence, remark.kind == .damage ? .warning : .faint))
      }
    }
  }

  /// Eighths of a block, so that small differences show.
  private static func bar(_ value: Int, of most: Int, _ width: Int) -> String {
    if most <= 0 { return "" }
    let eighths = value * width * 8 / most
    let parts = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"]
    return String(repeating: "█", count: eighths / 8) + parts[eighths % 8]
  }

  /// `12 345`, with a thin space that is no line break.
  private static func grouped(_ number: Int) -> String {
    let digits = Array(String(number))
    var out = ""
    for (index, digit) in digits.enumerated() {
      if index > 0 && (digits.count - index) % 3 == 0 { out += "\u{202F}" }
      out.append(digit)
    }
    return out
  }

  /// `6 h 50 min`
  private static func span(_ minutes: Int) -> String {
    minutes < 60 ? "\(minutes) min" : "\(minutes / 60) h \(minutes % 60) min"
  }

  private static func weekday(_ date: CivilDate) -> String {
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"][date.weekday]
  }
}
