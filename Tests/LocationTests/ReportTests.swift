import System
import TestSupport
import Testing

@testable import Location

/// What is made of a receiver's numbers.
@Suite struct ReportTests {
  static let wall: Int64 = 1_796_000_000_000

  /// A report as a good receiver gives it, at the moment it is received.
  static func report(_ change: (inout GpsdReport) -> Void = { _ in }) -> GpsdReport {
    var report = GpsdReport(mode: 3)
    report.time = (wall / 1000, 250_000_000)
    report.latitude = 52.37
    report.longitude = 4.895
    report.altitudeMSL = 12.5
    report.altitudeHAE = 59.4
    report.speed = 5.5
    report.track = 45
    report.eph = 17
    report.epx = 3
    report.epy = 4
    change(&report)
    return report
  }

  static func fix(_ change: (inout GpsdReport) -> Void = { _ in }) -> Fix? {
    report(change).fix(receivedAt: .seconds(100), receivedMs: wall + 400)
  }

  @Test("a good report becomes a fix with all that it says")
  func good() throws {
    let fix = try #require(Self.fix())
    #expect(fix.latitude == 52.37 && fix.longitude == 4.895 && fix.accuracyMeters == 17)
    #expect(fix.altitudeMeters == 12.5 && fix.speedMps == 5.5 && fix.headingDeg == 45)
    #expect(fix.timeMs == Self.wall + 250 && !fix.isTimeFromReceipt)
    #expect(fix.source == .gps && fix.isPrecise && fix.isAccuracyStated)
  }

  @Test("the mode decides whether there is a fix, not the coordinates", arguments: [-1, 0, 1, 4, 9])
  func mode(_ mode: Int) { #expect(Self.fix { $0.mode = mode } == nil) }

  @Test("the point where the equator meets Greenwich is a place like any other")
  func nullIsland() throws {
    let fix = try #require(
      Self.fix {
        $0.latitude = 0
        $0.longitude = 0
      })
    #expect(fix.latitude == 0 && fix.longitude == 0)
  }

  @Test("coordinates that are no place are no fix, whatever the mode says")
  func places() {
    for (latitude, longitude) in [
      (Double.nan, 4.0), (52, .nan), (.infinity, 4), (52, -.infinity), (90.1, 4), (-90.1, 4), (52, 180.1), (52, -181),
      (1e300, 1e300),
    ] {
      let fix = Self.fix {
        $0.latitude = latitude
        $0.longitude = longitude
      }
      #expect(fix == nil, "\(latitude) \(longitude)")
    }
    for (latitude, longitude) in [(90.0, 180.0), (-90, -180), (-0.0, 0)] {
      let fix = Self.fix {
        $0.latitude = latitude
        $0.longitude = longitude
      }
      #expect(fix != nil, "\(latitude) \(longitude)")
    }
  }

  @Test("a fix in two dimensions has no altitude, even where the report has one left over")
  func twoDimensions() throws {
    let fix = try #require(Self.fix { $0.mode = 2 })
    #expect(fix.altitudeMeters == nil && fix.latitude == 52.37)
  }

  @Test("the height above the sea is taken, and that above the ellipsoid where there is no other")
  func altitudes() {
    #expect(Self.fix { $0.altitudeMSL = .nan }?.altitudeMeters == 59.4)
    #expect(Self.fix { $0.altitudeMSL = 1e9 }?.altitudeMeters == 59.4)
    let none = Self.fix {
      $0.altitudeMSL = -.infinity
      $0.altitudeHAE = .nan
    }
    #expect(none != nil && none?.altitudeMeters == nil)
  }

  @Test("an absurd speed or course is left out, and the fix is not")
  func speeds() {
    for speed in [Double.nan, -1, .infinity, 5000] {
      let fix = Self.fix { $0.speed = speed }
      #expect(fix != nil && fix?.speedMps == nil && fix?.headingDeg == nil, "\(speed)")
    }
    for track in [Double.nan, -1, 361, .infinity] {
      let fix = Self.fix { $0.track = track }
      #expect(fix?.speedMps == 5.5 && fix?.headingDeg == nil, "\(track)")
    }
    #expect(Self.fix { $0.track = 360 }?.headingDeg == 0)
  }

  @Test("what stands still has no heading")
  func standing() {
    let fix = Self.fix { $0.speed = 0.2 }
    #expect(fix?.speedMps == 0.2 && fix?.headingDeg == nil)
    #expect(Self.fix { $0.speed = 0 }?.speedMps == 0)
  }

  @Test(
    "the accuracy is the horizontal estimate, else that of both directions, else a cautious one that is never called precise"
  )
  func accuracies() throws {
    for eph in [Double.nan, 0, -3, .infinity, -.infinity] {
      let fix = try #require(Self.fix { $0.eph = eph })
      #expect(fix.accuracyMeters == 5 && fix.isPrecise, "\(eph)")
    }
    for (mode, expected) in [(3, 100.0), (2, 500)] {
      let fix = try #require(
        Self.fix {
          $0.mode = mode
          $0.eph = .nan
          $0.epx = 0
        })
      #expect(fix.accuracyMeters == expected && !fix.isPrecise && !fix.isAccuracyStated)
    }
    #expect(Self.fix { $0.eph = 100 }?.isPrecise == true)
    #expect(Self.fix { $0.eph = 100.1 }?.isPrecise == false)
    // It says itself that it does not know; a cautious figure of ours would say more.
    #expect(Self.fix { $0.eph = 1e12 }?.accuracyMeters == 20_037_508)
  }

  @Test(
    "without a time, or with one far from this machine's clock, the place stays and the time of receipt is told, and said to be that"
  )
  func times() throws {
    let week: Int64 = 7 * 86400
    let received = Self.wall + 400
    for (name, time) in [
      ("none", nil), ("the last roll-over", (Self.wall / 1000 - 1024 * week, Int64(0))),
      ("one roll-over ahead", (Self.wall / 1000 + 1024 * week, 0)), ("a clock that began at 1970", (30, 0)),
      ("1899", (-2_209_075_200, 0)), ("beyond arithmetic", (.max, 0)), ("before it", (.min, .min)),
      ("no fraction", (Self.wall / 1000, 1_000_000_000)), ("eleven seconds old", (Self.wall / 1000 - 11, 0)),
    ] as [(String, (Int64, Int64)?)] {
      let fix = try #require(Self.fix { $0.time = time.map { (seconds: $0.0, nanoseconds: $0.1) } }, "\(name)")
      #expect(fix.timeMs == received && fix.isTimeFromReceipt, "\(name)")
      #expect(fix.latitude == 52.37, "\(name)")
      #expect(fix.age(at: .seconds(101)) == .seconds(1), "\(name)")
    }
    let near = try #require(Self.fix { $0.time = (seconds: Self.wall / 1000 - 9, nanoseconds: 0) })
    #expect(near.timeMs == Self.wall - 9000 && !near.isTimeFromReceipt)
  }

  @Test("whatever the numbers are, what is told is finite and possible")
  func anything() {
    var random = SeededRandom()
    let odd: [Double] = [
      .nan, .infinity, -.infinity, 0, -0.0, 1, -1, 90, -90, 180, -180, 360, 1e-300, 1e300, .greatestFiniteMagnitude,
    ]
    func number() -> Double {
      random.below(3) == 0 ? Double(bitPattern: random.next()) : odd[random.below(odd.count)] * Double(random.below(3))
    }
    var fixes = 0
    for _ in 0..<20_000 {
      let report = Self.report {
        $0.mode = random.below(6) - 1
        if random.below(2) == 0 { $0.latitude = number() }
        if random.below(2) == 0 { $0.longitude = number() }
        $0.altitudeMSL = number()
        $0.altitudeHAE = number()
        $0.speed = number()
        $0.track = number()
        $0.eph = number()
        $0.epx = number()
        $0.epy = number()
        $0.time = random.below(2) == 0 ? nil : (Int64(bitPattern: random.next()), Int64(bitPattern: random.next()))
      }
      guard let fix = report.fix(receivedAt: .zero, receivedMs: Self.wall) else { continue }
      fixes += 1
      #expect(fix.isPossible, "\(report) gave \(fix), seed \(random.seed)")
    }
    #expect(fixes > 100, "seed \(random.seed)")
  }
}

extension Fix {
  /// Nothing in it is out of the ranges that its fields promise.
  var isPossible: Bool {
    (-90...90).contains(latitude) && (-180...180).contains(longitude) && accuracyMeters > 0 && accuracyMeters.isFinite
      && (altitudeMeters.map { abs($0) <= 100_000 } ?? true) && (speedMps.map { (0...1_100).contains($0) } ?? true)
      && (headingDeg.map { (0..<360).contains($0) && speedMps ?? 0 >= 0.5 } ?? true)
      && (!isPrecise || accuracyMeters <= 100)
  }
}

/// What is made of GeoClue's properties.
@Suite struct GeoClueReportTests {
  static let wall: Int64 = 1_796_000_000_000

  static func properties(_ changes: [String: DBusValue?] = [:]) -> [String: DBusValue] {
    var properties: [String: DBusValue] = [
      "Latitude": .double(52.37), "Longitude": .double(4.895), "Accuracy": .double(30),
      "Altitude": .double(-.greatestFiniteMagnitude), "Speed": .double(-1), "Heading": .double(-1),
      "Description": .string("WiFi"), "Timestamp": .structure([.uint64(UInt64(wall / 1000)), .uint64(0)]),
    ]
    for (name, value) in changes { properties[name] = value }
    return properties
  }

  static func fix(_ changes: [String: DBusValue?] = [:]) -> Fix? {
    GeoClueReport(properties(changes))?.fix(receivedAt: .seconds(500), receivedMs: wall + 400)
  }

  @Test("a place found by Wi-Fi is told as that, without what GeoClue marks as unknown")
  func wifi() throws {
    let fix = try #require(Self.fix())
    #expect(fix.latitude == 52.37 && fix.accuracyMeters == 30 && fix.isPrecise && fix.source == .wifi)
    #expect(fix.altitudeMeters == nil && fix.speedMps == nil && fix.headingDeg == nil)
    #expect(fix.timeMs == Self.wall && !fix.isTimeFromReceipt && fix.age(at: .seconds(501)) == .milliseconds(1400))
  }

  @Test(
    "the source is told only where GeoClue tells it",
    arguments: [
      ("GPS GGA", Fix.Source.gps), ("WiFi", .wifi), ("3GPP", .cell), ("CDMA", .cell), ("GeoIP", .unknown),
      ("", .unknown), ("a field in Utrecht", .unknown),
    ])
  func sources(_ description: String, _ source: Fix.Source) {
    #expect(Self.fix(["Description": .string(description)])?.source == source)
  }

  @Test("an accuracy of 0 means unknown: a cautious one is stated, and it is not called precise")
  func unknownAccuracy() throws {
    for accuracy in [0.0, -1, .nan, .infinity] {
      let fix = try #require(Self.fix(["Accuracy": .double(accuracy)]))
      #expect(fix.accuracyMeters == 5000 && !fix.isPrecise, "\(accuracy)")
    }
    let receiver = try #require(Self.fix(["Accuracy": .double(0), "Altitude": .double(12)]))
    #expect(receiver.accuracyMeters == 100 && !receiver.isPrecise && receiver.altitudeMeters == 12)
  }

  @Test("a location that was kept is as old as it says; a time to come, or none, is not believed")
  func ages() throws {
    let old = try #require(Self.fix(["Timestamp": .structure([.uint64(UInt64(Self.wall / 1000 - 600)), .uint64(0)])]))
    #expect(old.age(at: .seconds(500)) == .milliseconds(600_400) && !old.isTimeFromReceipt)
    for stamp in [UInt64(Self.wall / 1000 + 60), 0, .max] {
      let fix = try #require(Self.fix(["Timestamp": .structure([.uint64(stamp), .uint64(.max)])]))
      #expect(fix.isTimeFromReceipt && fix.timeMs == Self.wall + 400, "\(stamp)")
    }
    #expect(Self.fix(["Timestamp": nil])?.isTimeFromReceipt == true)
    #expect(Self.fix(["Timestamp": .string("now")])?.isTimeFromReceipt == true)
  }

  @Test("coordinates that are missing or no place are no location")
  func places() {
    #expect(Self.fix(["Latitude": nil]) == nil)
    #expect(Self.fix(["Longitude": .string("4")]) == nil)
    #expect(Self.fix(["Latitude": .double(91)]) == nil)
    #expect(Self.fix(["Longitude": .double(.nan)]) == nil)
  }
}
