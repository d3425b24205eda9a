import Glibc
import System
import TestSupport
import Testing

@testable import Location

@Suite struct GridTests {
  static func fix(_ latitude: Double, _ longitude: Double, accuracy: Double = 10) -> Fix {
    Fix(
      latitude: latitude, longitude: longitude, accuracyMeters: accuracy, isAccuracyStated: true, altitudeMeters: 12,
      speedMps: 3, headingDeg: 90, timeMs: 0, isTimeFromReceipt: false, source: .gps, satellites: nil,
      receivedAt: .zero)
  }

  /// Over the ground, on a sphere of the grid's own size.
  static func distance(_ left: Fix, _ right: Fix) -> Double {
    let radian = Double.pi / 180
    let (a, b) = (left.latitude * radian, right.latitude * radian)
    let turn = (right.longitude - left.longitude) * radian
    let half = pow(sin((b - a) / 2), 2) + cos(a) * cos(b) * pow(sin(turn / 2), 2)
    return 2 * asin(min(1, half.squareRoot())) * PrivacyGrid.degree / radian
  }

  @Test("everywhere on Earth the place told is within the accuracy told, on the Earth, and tells no altitude")
  func everywhere() throws {
    var random = SeededRandom()
    for _ in 0..<20_000 {
      let grid = try #require(PrivacyGrid(meters: pow(10, Double(random.below(60)) / 10)))
      let latitude = Double(random.below(180_001)) / 1000 - 90
      let longitude = Double(random.below(360_001)) / 1000 - 180
      let fix = Self.fix(latitude, longitude)
      let coarse = grid.applied(to: fix)
      #expect((-90...90).contains(coarse.latitude) && (-180...180).contains(coarse.longitude), "seed \(random.seed)")
      #expect(
        Self.distance(fix, coarse) <= coarse.accuracyMeters - 10 + 0.01,
        "\(latitude) \(longitude) in \(grid.meters) m, seed \(random.seed)")
      #expect(coarse.altitudeMeters == nil && coarse.source == .gps)
    }
  }

  @Test("all places of a field become one, and asking again of the place told gives it again")
  func oneAnswer() throws {
    let grid = try #require(PrivacyGrid(meters: 1000))
    let first = grid.applied(to: Self.fix(52.37, 4.895))
    var same = 0
    for step in 0..<100 {
      let other = grid.applied(to: Self.fix(52.37 + Double(step) * 1e-5, 4.895))
      if other.latitude == first.latitude && other.longitude == first.longitude { same += 1 }
    }
    #expect(same > 10 && same < 100, "\(same)")
    let again = grid.applied(to: first)
    #expect(again.latitude == first.latitude && again.longitude == first.longitude)
  }

  @Test("a grid of a kilometre makes a precise fix one that is not called precise")
  func precision() throws {
    let coarse = try #require(PrivacyGrid(meters: 1000)).applied(to: Self.fix(52.37, 4.895))
    #expect(!coarse.isPrecise && (400...800).contains(coarse.accuracyMeters))
    #expect(PrivacyGrid(meters: 0) == nil && PrivacyGrid(meters: -5) == nil && PrivacyGrid(meters: .nan) == nil)
  }

  @Test("a grid finer than a number can count is one of a metre, and still has a place on Earth in its middle")
  func finest() throws {
    let coarse = try #require(PrivacyGrid(meters: 1e-303)).applied(to: Self.fix(52.37, 4.895))
    #expect(abs(coarse.latitude - 52.37) < 1e-4 && abs(coarse.longitude - 4.895) < 1e-4)
  }
}
