import System
import TestSupport
import Testing

@testable import Camera

/// What cameras call a JPEG becomes one, and what is whole is left alone.
@Suite struct JPEGRepairTests {
  @Test(
    "a whole file is passed on byte for byte", arguments: ["whole.jpg", "grey.jpg", "progressive.jpg", "restarts.jpg"])
  func untouched(name: String) throws {
    let bytes = try Sample.bytes(name)
    let cleaned = try JPEGRepair(bytes)
    #expect(!cleaned.isChanged)
    #expect(cleaned.bytes == bytes)
    #expect(cleaned.size == Size(320, 240))
  }

  @Test(
    "a frame without tables, with an AVI1 mark, stray bytes or without an end shows the same picture as the whole file",
    arguments: ["no-tables.jpg", "avi1.jpg", "stray.jpg", "padded.jpg", "no-end.jpg"])
  func mended(name: String) throws {
    let whole = try Sample.picture("whole.jpg")
    #expect(try Sample.picture(name) == whole)
  }

  @Test("what comes out is a plain JFIF file: tables in, AVI1 and stray bytes out")
  func isJFIF() throws {
    let cleaned = try JPEGRepair(try Sample.bytes("no-tables.jpg"))
    #expect(cleaned.isChanged)
    #expect(Array(cleaned.bytes[6..<10]) == Array("JFIF".utf8))
    #expect(!String(decoding: cleaned.bytes, as: UTF8.self).contains("AVI1"))
    // Cleaned twice is cleaned once.
    #expect(try JPEGRepair(cleaned.bytes).bytes == cleaned.bytes)
    let stray = try JPEGRepair(try Sample.bytes("stray.jpg"))
    #expect(stray.bytes == (try Sample.bytes("whole.jpg")))
  }

  @Test("the orientation is read and its Exif data left out, with all else it may tell", arguments: 1...8)
  func orientation(_ orientation: Int) throws {
    let cleaned = try JPEGRepair(try Sample.bytes("orientation-\(orientation).jpg"))
    #expect(cleaned.orientation == orientation)
    #expect(!String(decoding: cleaned.bytes, as: UTF8.self).contains("Exif"))
  }

  @Test("what tells of the device or its place stays out, whatever segment it is in; what the colours need stays")
  func metadata() throws {
    func segment(_ marker: UInt8, _ body: String) -> [UInt8] {
      let bytes = Array(body.utf8)
      return [0xFF, marker, 0, UInt8(bytes.count + 2)] + bytes
    }
    let whole = try Sample.bytes("whole.jpg")
    let kept = segment(0xE2, "ICC_PROFILE\0\u{1}\u{1}colours") + segment(0xEE, "Adobe\0d\0\0\0\0\u{1}")
    // A JFIF segment of its own length, a longer one with a picture in it, and an old one of another maker.
    let own = Array(whole[2..<20])
    #expect(own[4..<8].elementsEqual("JFIF".utf8))
    let secrets =
      (0xE0...0xEF).flatMap { segment($0, "Secret serial number") } + segment(0xE0, "JFXX\0Secret")
      + segment(0xE2, "MPF\0Secret") + segment(0xE1, "http://ns.adobe.com/xap/1.0/\0Secret")
      + segment(0xEB, "JPSecret") + segment(0xFE, "Secret") + segment(0xDC, "Secret") + segment(0xF0, "Secret")
      + segment(0xC8, "Secret")
    let thumbnail = segment(0xE0, "JFIF\0\u{1}\u{1}\0\0\u{1}\0\u{1}\u{1}\u{1}Secret")
    let bytes = Array(whole[..<20]) + secrets + kept + whole[20...]
    let cleaned = try JPEGRepair(bytes)
    #expect(cleaned.bytes == Array(whole[..<20]) + kept + whole[20...])
    #expect(try JPEGRepair(cleaned.bytes).bytes == cleaned.bytes)
    #expect(try JPEGRepair(Array(whole[..<2]) + thumbnail + whole[20...]).bytes == whole)
    // The decoder can still see all of it.
    #expect(
      try TurboJPEG.shared.get().decode(JPEGRepair(Array(whole[..<20]) + secrets + whole[20...]))
        == Sample.picture("whole.jpg"))
  }

  @Test("a cut or damaged frame does not decode, and says so", arguments: ["truncated.jpg", "damaged.jpg"])
  func damaged(name: String) throws {
    #expect(throws: CameraError.self) {
      let cleaned = try JPEGRepair(try Sample.bytes(name))
      _ = try TurboJPEG.shared.get().thumbnail(cleaned)
    }
    #expect(throws: CameraError.self) { _ = try Sample.picture(name) }
  }

  @Test("cut anywhere, a frame is either refused or found damaged, never half a picture")
  func cutAnywhere() throws {
    let bytes = try Sample.bytes("no-tables.jpg")
    let library = try TurboJPEG.shared.get()
    // What did not come is zeros, where a driver hands over the whole buffer.
    for filling in [0, 3000] {
      for end in stride(from: 0, to: bytes.count - 40, by: 7) {
        let cut = bytes[..<end] + [UInt8](repeating: 0, count: filling)
        guard let cleaned = try? JPEGRepair(Array(cut)) else { continue }
        #expect(throws: CameraError.self, "cut at \(end) of \(bytes.count), and \(filling) zeros") {
          _ = try library.thumbnail(cleaned)
        }
      }
    }
  }

  @Test("a whole frame without an end mark is whole with zeros after it as well")
  func filled() throws {
    let bytes = try Sample.bytes("no-end.jpg")
    let filled = try JPEGRepair(bytes + [UInt8](repeating: 0, count: 3000))
    #expect(try TurboJPEG.shared.get().decode(filled) == TurboJPEG.shared.get().decode(JPEGRepair(bytes)))
  }

  @Test("a table after the data may end in zeros: it stays whole")
  func zerosInATable() throws {
    let bytes = try Sample.bytes("no-end.jpg")
    let repaired = try JPEGRepair(bytes + [0xFF, 0xC4, 0, 19, 0] + [UInt8](repeating: 0, count: 16))
    #expect(try JPEGRepair(repaired.bytes).bytes == repaired.bytes)
  }

  @Test("random bytes within a frame end in a picture or an error")
  func randomDamage() throws {
    var random = SeededRandom()
    let library = try TurboJPEG.shared.get()
    for name in ["no-tables.jpg", "progressive.jpg", "orientation-6.jpg"] {
      let bytes = try Sample.bytes(name)
      for _ in 0..<150 {
        var broken = bytes
        for _ in 0..<(1 + random.below(8)) { broken[random.below(broken.count)] = UInt8(random.below(256)) }
        guard let cleaned = try? JPEGRepair(broken) else { continue }
        #expect(cleaned.size.isSane, "seed \(random.seed)")
        _ = try? library.decode(cleaned, least: Size(100, 100))
      }
    }
  }

  @Test("whatever was in it, a cleaned file is clean: cleaning it again changes nothing")
  func cleanedTwice() throws {
    var random = SeededRandom()
    for name in ["whole.jpg", "no-tables.jpg", "no-end.jpg", "progressive.jpg", "restarts.jpg"] {
      let bytes = try Sample.bytes(name)
      for _ in 0..<400 {
        var odd = bytes
        // Markers of any kind at any place, mostly where the segments are.
        for _ in 0..<(1 + random.below(4)) {
          let place = random.below(random.below(3) == 0 ? odd.count : min(odd.count, 700))
          let marker: [UInt8] = [0xFF, UInt8(0xC0 + random.below(64)), 0, UInt8(2 + random.below(30))]
          odd.insert(contentsOf: marker + [UInt8](repeating: 0, count: random.below(40)), at: place)
        }
        guard let cleaned = try? JPEGRepair(odd) else { continue }
        #expect((try? JPEGRepair(cleaned.bytes))?.bytes == cleaned.bytes, "\(name), seed \(random.seed)")
      }
    }
  }

  @Test("impossible sizes, tiny frames and nonsense are refused")
  func refused() throws {
    #expect(throws: JPEGRepair.Damage.tooSmall) { try JPEGRepair([0xFF, 0xD8, 0xFF, 0xD9]) }
    #expect(throws: JPEGRepair.Damage.noStart) { try JPEGRepair([UInt8](repeating: 7, count: 500)) }
    var bytes = try Sample.bytes("whole.jpg")
    let header = try #require(bytes.indices.first { bytes[$0] == 0xFF && bytes[$0 + 1] == 0xC0 })
    for offset in 5...8 { bytes[header + offset] = 0xFF }
    #expect(throws: JPEGRepair.Damage.badSize) { try JPEGRepair(bytes) }
    let whole = try Sample.bytes("whole.jpg")
    #expect(throws: JPEGRepair.Damage.cutOff) { try JPEGRepair(Array(whole[..<3000]) + whole) }
  }
}

/// A stream of JPEGs is cut into its frames.
@Suite struct JPEGSplitterTests {
  @Test("however the stream is cut into pieces, the frames are the same", arguments: [1, 2, 3, 61, 4096, 1 << 20])
  func pieces(step: Int) throws {
    let frames = try Sample.frames("room.mjpeg").prefix(3) + [try Sample.bytes("orientation-3.jpg")]
    let stream = frames.reduce([0x00, 0xFF, 0x13], +)
    var splitter = JPEGSplitter()
    var found: [[UInt8]] = []
    for start in stride(from: 0, to: stream.count, by: step) {
      splitter.feed(Array(stream[start..<min(start + step, stream.count)]))
      while let frame = splitter.next() { found.append(frame) }
    }
    #expect(found == Array(frames))
    #expect(splitter.finish() == nil)
  }

  @Test("a frame that was cut off ends where the next begins, and the last one is handed out at the end")
  func cutOff() throws {
    let frame = try Sample.frames("room.mjpeg")[0]
    var splitter = JPEGSplitter()
    splitter.feed(Array(frame[..<5000]) + frame + frame[..<6000])
    #expect(splitter.next() == Array(frame[..<5000]))
    #expect(splitter.next() == frame)
    #expect(splitter.next() == nil)
    #expect(splitter.finish() == Array(frame[..<6000]))
  }

  @Test("a picture within a picture's metadata does not end it")
  func thumbnail() throws {
    let inner = try Sample.bytes("orientation-1.jpg")
    let outer = try Sample.bytes("whole.jpg")
    let length = inner.count + 2
    let frame = Array(outer[..<2]) + [0xFF, 0xE2, UInt8(length >> 8), UInt8(length & 0xFF)] + inner + outer[2...]
    var splitter = JPEGSplitter()
    splitter.feed(frame)
    #expect(splitter.next() == frame)
  }

  @Test("a stream without an end is given up, and memory stays bounded")
  func endless() {
    var splitter = JPEGSplitter()
    splitter.feed([0xFF, 0xD8, 0xFF, 0xDA, 0, 2])
    let piece = [UInt8](repeating: 0x55, count: 1 << 20)
    for _ in 0..<40 { splitter.feed(piece) }
    #expect(splitter.next() == nil)
    #expect(splitter.finish() == nil)
  }
}
