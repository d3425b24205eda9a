import Testing

@testable import Camera

@Suite struct ShrinkTests {
  @Test("a picture that fits is encoded once")
  func fits() {
    var shrink = Shrink(quality: 0.9, size: Size(1600, 1200), limit: 1000)
    #expect(shrink.first == Shrink.Try(quality: 0.9, size: Size(1600, 1200)))
    #expect(shrink.after(1000) == .fits)
  }
}
