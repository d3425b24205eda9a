import Configuration
import GatewayProtocol
import Location
import LocationModule
import NodeKit
import System

/// `talknode location`: where this machine is, for the person at it. Asks the receivers itself, so that no switch has to be on for it, and
/// nothing of it goes to a gateway.
enum LocationCommand {
  private static let watch = Option("watch", "go on with a line at each fix")

  static let verb = Verb(
    "location", "where this machine is, and how that is known", options: [watch, .json, .config],
    notes: [
      """
      Shows the fix as it is known, its age, the satellites, who gave it and why not another. It needs no switch and tells no \
      gateway. What agents may know of it is said in the last line: see [location] in the settings, and the switches location, \
      location.always and location.precise.
      """
    ], run: run)

  /// How long a person waits for a fix.
  private static let patience: Duration = .seconds(20)

  private static func run(_ arguments: Arguments, _ terminal: Terminal) async throws(Failure) -> ExitStatus {
    let context = Context(arguments, terminal)
    let settings = try context.settings()
    let loop = context.loop()
    defer { loop.stop() }
    let services = context.services(loop, settings: settings)
    let gates = Gates(services.location, settings.location)
    let result: Result<ExitStatus, Failure>
    do throws(Failure) {
      let isEndless = arguments.has(watch)
      result = .success(
        isEndless ? try await follow(services.locator, context) : try await show(services.locator, gates, context))
    } catch {
      result = .failure(error)
    }
    await services.close()
    return try result.get()
  }

  /// What agents may know.
  private struct Gates: Sendable {
    let mode: LocationModule.Mode
    let sentence: String

    init(_ module: LocationModule, _ section: LocationSettings) {
      mode = module.mode
      let meters = Int(module.roundsTo)
      let rounded = meters > 0 ? ", rounded to \(meters) m" : ""
      sentence =
        switch mode {
        case .off: "not told (talknode capabilities enable location)"
        case .whileUsing: "told while you use this machine\(rounded)"
        case .always: "told at any time\(rounded)"
        }
    }
  }

  private static func failure(_ error: LocationError) -> Failure {
    let exit: ExitStatus =
      switch error.code {
      case .timeout: .temporary
      case .disabled: .noPermission
      default: .unavailable
      }
    return Failure(error.code.rawValue, error.summary, remedy: error.remedy ?? "talknode doctor", exit: exit)
  }

  // MARK: Once

  private static func show(
    _ locator: Locator, _ gates: Gates, _ context: Context
  ) async throws(Failure) -> ExitStatus {
    let terminal = context.terminal
    terminal.noteInPlace("waiting for a fix, at most \(Int(patience.inSeconds)) s")
    let request = LocationRequest(deadline: Monotonic.now() + patience, detail: .precise)
    let located: Located
    do throws(LocationError) { located = try await locator.locate(request) } catch {
      terminal.noteInPlace("")
      throw failure(error)
    }
    terminal.noteInPlace("")
    if context.wantsJSON {
      terminal.print(json(located.fix, located.provider, located.passedOver, gates))
      return .ok
    }
    func add(_ label: String, _ text: String) {
      terminal.print(
        terminal.styled(label, .faint) + String(repeating: " ", count: max(12 - label.count, 1)) + text)
    }
    for (label, text) in lines(located.fix, now: Monotonic.now()) { add(label, text) }
    add(
      "source", "\(located.provider.name)" + (located.fix.source == .unknown ? "" : " (\(located.fix.source.rawValue))")
    )
    for passed in located.passedOver { add("not", "\(passed.provider.name): \(passed.error.summary)") }
    add("agents", gates.sentence)
    return .ok
  }

  /// A fix for a person.
  static func lines(_ fix: Fix, now: Duration) -> [(String, String)] {
    let stated = fix.isAccuracyStated ? "" : ", a cautious guess: the receiver gives no estimate"
    var lines = [("place", "\(place(fix)) (±\(number(fix.accuracyMeters, 1)) m\(stated))")]
    if let altitude = fix.altitudeMeters { lines.append(("altitude", "\(number(altitude, 1)) m")) }
    if let speed = fix.speedMps {
      let heading = fix.headingDeg.map { ", heading \(number($0, 0))°" } ?? ""
      lines.append(("motion", "\(number(speed, 1)) m/s\(heading)"))
    }
    let receipt = fix.isTimeFromReceipt ? "; the time of receipt, for the receiver's own is missing or wrong" : ""
    lines.append(("time", "\(WallClock.iso8601(fix.timeMs)), \(age(fix, now)) ago\(receipt)"))
    if let satellites = fix.satellites {
      lines.append(("satellites", "\(satellites.used) used of \(satellites.visible) seen"))
    }
    return lines
  }

  private static func place(_ fix: Fix) -> String { "\(number(fix.latitude, 6)), \(number(fix.longitude, 6))" }
  private static func age(_ fix: Fix, _ now: Duration) -> String {
    let age = fix.age(at: now)
    return age < .seconds(10) ? "\(number(age.inSeconds, 1)) s" : StatusCommand.span(Int64(age.milliseconds))
  }

  /// With so many digits after the point.
  static func number(_ value: Double, _ digits: Int) -> String {
    let scale = (0..<digits).reduce(1.0) { scale, _ in scale * 10 }
    let scaled = Int64((abs(value) * scale).rounded())
    let sign = value < 0 && scaled != 0 ? "-" : ""
    if digits == 0 { return sign + "\(scaled)" }
    let fraction = String(scaled % Int64(scale))
    return sign + "\(scaled / Int64(scale))." + String(repeating: "0", count: digits - fraction.count) + fraction
  }

  private static func json(
    _ fix: Fix, _ provider: Provider, _ passedOver: [Located.PassedOver] = [], _ gates: Gates? = nil
  ) -> JSON {
    .object(present: [
      "fix": LocationModule.json(fix), "isAccuracyStated": .bool(fix.isAccuracyStated),
      "ageMs": .int(Int64(fix.age(at: Monotonic.now()).milliseconds)), "provider": .string(provider.rawValue),
      "satellites": fix.satellites.map { ["used": .int(Int64($0.used)), "visible": .int(Int64($0.visible))] },
      "passedOver": .array(
        passedOver.map { passed in
          .object(present: [
            "provider": .string(passed.provider.rawValue), "code": .string(passed.error.code.rawValue),
            "reason": .string(passed.error.summary), "remedy": passed.error.remedy.map(JSON.string),
          ])
        }),
      "agents": gates.map { ["mode": .string($0.mode.rawValue), "told": .string($0.sentence)] },
    ])
  }

  // MARK: On and on

  private static func follow(_ locator: Locator, _ context: Context) async throws(Failure) -> ExitStatus {
    let terminal = context.terminal
    let provider = try await chosen(locator)
    terminal.note("\(provider.name), until interrupted")
    var last = ""
    for await news in await locator.follow(provider) {
      if context.wantsJSON {
        terminal.print(json(news, provider))
        continue
      }
      let line = sentence(news)
      // A receiver that sees nothing says so every second.
      if line != last { terminal.print(line) }
      if case .fix = news { last = "" } else { last = line }
    }
    return .ok
  }

  /// The first that could answer.
  private static func chosen(_ locator: Locator) async throws(Failure) -> Provider {
    let findings = await locator.findings()
    for finding in findings { if case .success = finding.state { return finding.provider } }
    let errors = findings.compactMap { if case .failure(let error) = $0.state { error } else { nil as LocationError? } }
    throw failure(
      LocationError(
        .unavailable, errors.map(\.summary).joined(separator: " "), remedy: errors.lazy.compactMap(\.remedy).first))
  }

  private static func sentence(_ news: FixNews) -> String {
    switch news {
    case .fix(let fix, let receiver):
      let speed = fix.speedMps.map { "  \(number($0, 1)) m/s" } ?? ""
      let heading = fix.headingDeg.map { " \(number($0, 0))°" } ?? ""
      let sky = fix.satellites.map { "  \($0.used)/\($0.visible) satellites" } ?? ""
      return "\(WallClock.iso8601(fix.timeMs))\(fix.isTimeFromReceipt ? "?" : "")  \(place(fix)) "
        + "±\(number(fix.accuracyMeters, 1)) m\(speed)\(heading)\(sky)  \(receiver)"
    case .noFix(let receiver, let satellites):
      return "\(receiver): no fix" + (satellites.map { ", sees \($0.visible) satellites" } ?? "")
    case .trouble(let error): return error.summary
    }
  }

  private static func json(_ news: FixNews, _ provider: Provider) -> JSON {
    switch news {
    case .fix(let fix, let receiver):
      var members = json(fix, provider).object ?? [:]
      members["receiver"] = .string(receiver)
      members["passedOver"] = nil
      return .object(members)
    case .noFix(let receiver, let satellites):
      return .object(present: [
        "fix": .null, "provider": .string(provider.rawValue), "receiver": .string(receiver),
        "satellites": satellites.map { ["used": .int(Int64($0.used)), "visible": .int(Int64($0.visible))] },
      ])
    case .trouble(let error):
      return .object(present: [
        "provider": .string(provider.rawValue), "code": .string(error.code.rawValue), "reason": .string(error.summary),
        "remedy": error.remedy.map(JSON.string),
      ])
    }
  }
}

extension DoctorCommand {
  /// Where a position would come from, in the order of asking.
  static func location(_ locator: Locator) async -> [Finding] {
    var findings: [Finding] = []
    if locator.options.choice == .auto {
      let order = "gpsd's fix, else GeoClue, else the fixed position of the settings"
      findings.append(Finding(.ok, "location", "provider = \"auto\": \(order)."))
    }
    for finding in await locator.findings() {
      let name = "location: \(finding.provider.rawValue)"
      switch finding.state {
      case .success(let state): findings.append(Finding(.ok, name, state))
      case .failure(let error): findings.append(Finding(.note, name, error.summary, remedy: error.remedy))
      }
    }
    return findings
  }
}
