// covers, as location: Sources/Location/Fix.swift Sources/Location/GpsdReport.swift Sources/Location/GeoClueReport.swift Sources/Location/FixWatch.swift Sources/Location/Receivers.swift Sources/Location/PrivacyGrid.swift
import GatewayProtocol
import Location
import LocationModule
import System

/// What gpsd and GeoClue say, number by number, and in which order they say it: whatever comes, what is told is finite and possible, nobody
/// gets a fix older than he allows, each asker gets one answer, and on time.
@Sendable func fuzzLocation(_ bytes: UnsafeRawBufferPointer) {
  var walk = LocationWalk(bytes)
  while walk.step() {}
}

private struct LocationWalk {
  private let bytes: UnsafeRawBufferPointer
  private var at = 0
  private var now: Duration = .seconds(1000)
  private var watch = FixWatch(name: "gpsd", linger: .seconds(5))
  private var asked: [UInt64: FixWatch.Want] = [:]
  private var lastID: UInt64 = 0
  private var isOpen = false
  private let grid: PrivacyGrid?
  private static let wall: Int64 = 1_796_000_000_000

  init(_ bytes: UnsafeRawBufferPointer) {
    self.bytes = bytes
    grid = PrivacyGrid(meters: bytes.count >= 8 ? bytes.loadUnaligned(as: Double.self) : 1000)
  }

  private mutating func byte() -> UInt8 {
    guard at < bytes.count else { return 0 }
    defer { at += 1 }
    return bytes[at]
  }

  private mutating func word() -> UInt64 {
    var word: UInt64 = 0
    for _ in 0..<8 { word = word << 8 | UInt64(byte()) }
    return word
  }

  /// Near what is possible, or any double at all.
  private mutating func number() -> Double {
    let kind = byte()
    return switch kind & 7 {
    case 0: Double(bitPattern: word())
    case 1: .nan
    case 2: Double(Int8(bitPattern: byte()))
    case 3: Double(Int16(truncatingIfNeeded: word())) / 100
    case 4: kind > 127 ? .infinity : -.infinity
    default: Double(kind)
    }
  }

  /// One event; false at the end.
  mutating func step() -> Bool {
    guard at < bytes.count else { return false }
    now += .milliseconds(Int(byte()) * 8)
    let receiver = ["a", "b", "c", String(byte())][Int(byte()) & 3]
    switch byte() % 10 {
    case 0, 1: ask()
    case 2: take(.feed(.opened))
    case 3, 4: position(gpsd(), receiver)
    case 5: position(geoclue(), receiver)
    case 6: take(.feed(.noFix(receiver: receiver)))
    case 7: take(.feed(.receivers(Int(Int8(bitPattern: byte())))))
    case 8: take(isOpen ? .feed(.failed(LocationError(.unavailable, "gone"))) : .tick)
    default:
      if let wake = watch.nextWake { now = max(now, wake) }
      take(.tick)
    }
    return true
  }

  private mutating func ask() {
    lastID += 1
    let want = FixWatch.Want(
      id: lastID, askedAt: now, deadline: now + .milliseconds(Int(byte()) * 16 + 1),
      maxAge: byte() & 1 == 0 ? nil : .milliseconds(Int(byte()) * 100),
      detail: [.coarse, .balanced, .precise][Int(byte()) % 3])
    asked[want.id] = want
    take(.asked(want))
  }

  private mutating func gpsd() -> Fix? {
    var report = GpsdReport(mode: Int(Int8(bitPattern: byte())) % 5)
    if byte() & 1 == 0 {
      let isNear = byte() & 1 == 0
      report.time = (isNear ? Self.wall / 1000 : Int64(bitPattern: word()), Int64(bitPattern: word()))
    }
    report.latitude = number()
    report.longitude = number()
    report.altitudeMSL = number()
    report.altitudeHAE = number()
    report.speed = number()
    report.track = number()
    report.eph = number()
    report.epx = number()
    report.epy = number()
    let fix = report.fix(receivedAt: now, receivedMs: Self.wall)
    precondition(fix == nil || report.mode == 2 || report.mode == 3, "a fix without a mode for it")
    precondition(fix?.altitudeMeters == nil || report.mode == 3, "an altitude in two dimensions")
    return fix
  }

  private mutating func geoclue() -> Fix? {
    let report = GeoClueReport([
      "Latitude": .double(number()), "Longitude": .double(number()), "Accuracy": .double(number()),
      "Altitude": .double(number()), "Speed": .double(number()), "Heading": .double(number()),
      "Description": .string(["GPS", "WiFi", "", "3G"][Int(byte()) & 3]),
      "Timestamp": .structure([.uint64(byte() & 1 == 0 ? word() : UInt64(Self.wall / 1000)), .uint64(word())]),
    ])
    return report?.fix(receivedAt: now, receivedMs: Self.wall)
  }

  private mutating func position(_ fix: Fix?, _ receiver: String) {
    guard let fix else { return take(.feed(.noFix(receiver: receiver))) }
    check(fix)
    if let coarse = grid?.applied(to: fix) {
      check(coarse)
      precondition(coarse.altitudeMeters == nil && coarse.accuracyMeters >= fix.accuracyMeters, "a grid that tells")
    }
    take(.feed(.fix(fix, receiver: receiver)))
  }

  private func check(_ fix: Fix) {
    precondition((-90...90).contains(fix.latitude) && (-180...180).contains(fix.longitude), "no place: \(fix)")
    precondition(fix.accuracyMeters > 0 && fix.accuracyMeters.isFinite, "no accuracy: \(fix)")
    precondition(fix.altitudeMeters.map { $0.isFinite } ?? true, "no altitude: \(fix)")
    precondition(fix.speedMps.map { $0 >= 0 && $0.isFinite } ?? true, "no speed: \(fix)")
    precondition(fix.headingDeg.map { (0..<360).contains($0) && (fix.speedMps ?? 0) > 0 } ?? true, "no heading: \(fix)")
    precondition((0...253_402_300_800_000).contains(fix.timeMs), "no time: \(fix)")
    precondition(!fix.isPrecise || (fix.isAccuracyStated && fix.accuracyMeters <= 100), "not precise: \(fix)")
    let json = LocationModule.json(fix)
    let read = try? JSON(parsing: json.encoded())
    for key in ["lat", "lon", "accuracyMeters", "altitudeMeters", "speedMps", "headingDeg"] {
      precondition(read != nil && read?[key]?.double == json[key]?.double, "not what is read back: \(json.text)")
    }
  }

  private mutating func take(_ event: FixWatch.Event) {
    if case .feed(.failed) = event { isOpen = false }
    for action in watch.on(event, at: now) {
      switch action {
      case .open:
        precondition(!isOpen, "opened twice")
        isOpen = true
      case .close:
        precondition(isOpen, "closed twice")
        isOpen = false
      case .answer(let id, let fix):
        guard let want = asked.removeValue(forKey: id) else { preconditionFailure("answered twice") }
        precondition(
          fix.measuredAt >= want.askedAt - (want.maxAge ?? .seconds(1)) - .seconds(1), "too old: \(fix) for \(want)")
      case .refuse(let id, _): precondition(asked.removeValue(forKey: id) != nil, "refused after an answer")
      case .tell: break
      }
    }
    precondition(asked.count <= 64, "no bound")
    for want in asked.values {
      precondition(want.deadline > now, "late")
      precondition(watch.nextWake.map { $0 <= want.deadline } == true, "nothing wakes it")
    }
  }
}
