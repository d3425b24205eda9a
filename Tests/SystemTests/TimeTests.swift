import System
import Testing

@Suite("Times on paper")
struct TimeTests {
  @Test("any number of milliseconds is written, also one that no clock reaches")
  func extremes() {
    #expect(WallClock.iso8601(0) == "1970-01-01T00:00:00.000Z")
    #expect(WallClock.iso8601(-1) == "1969-12-31T23:59:59.999Z")
    for milliseconds in [Int64.min, .min + 1, .max] { #expect(WallClock.iso8601(milliseconds).hasSuffix("Z")) }
  }
}
