import Glibc
import System
import TestSupport
import Testing

@testable import Location

/// What gpsfake can't send: damage, silence and nonsense, through the real libgps.
@Suite struct ScriptedGpsdTests {
  private typealias Gpsd = ScriptedGpsd
  private static let good =
    #""time":"2001-01-01T00:00:00.000Z","lat":10.5,"lon":20.5,"eph":5,"altMSL":3,"speed":4,"track":90"#

  private func fix(_ locator: Locator, within limit: Duration = .seconds(20)) async throws(LocationError) -> Fix {
    try await locator.locate(LocationRequest(deadline: Monotonic.now() + limit)).fix
  }

  @Test(
    "NaN, null, texts and numbers beyond a double cost their field, or the fix where it is the place, and nothing else")
  func fields() async throws {
    for members in [
      #""lat":NaN,"lon":20.5"#, #""lat":null,"lon":20.5"#, #""lat":"10","lon":20.5"#, #""lat":1e999,"lon":20.5"#,
      #""lat":10.5"#, #""lat":-1e999,"lon":nan"#, #""lat":91,"lon":20"#, #""lon":"#, #""lat":10.5,"lon""#,
    ] {
      try await Gpsd.with([
        .say(Gpsd.version), .say(Gpsd.devices), .say(Gpsd.report(members)), .hold, .say(Gpsd.report(Self.good)),
      ]) { gpsd, locator in
        let refusal = await locator.refusal(within: .milliseconds(300))
        #expect(refusal?.code == .timeout, "\(members)")
        async let waiting = fix(locator)
        gpsd.go()
        let fix = try await waiting
        #expect(fix.latitude == 10.5 && fix.longitude == 20.5, "\(members)")
      }
    }
  }

  @Test("what is wrong beside the place is left out of the fix")
  func optionalFields() async throws {
    let members =
      #""lat":10.5,"lon":20.5,"eph":null,"epx":NaN,"epy":1,"altMSL":null,"altHAE":"x","speed":-1,"track":1e999"#
    try await Gpsd.with([.say(Gpsd.version), .say(Gpsd.devices), .say(Gpsd.report(members))]) { _, locator in
      let fix = try await fix(locator)
      #expect(fix.isPossible && fix.latitude == 10.5)
      #expect(fix.altitudeMeters == nil && fix.speedMps == nil && fix.headingDeg == nil)
      #expect(fix.accuracyMeters == GpsdReport.cautious3D && !fix.isPrecise && fix.isTimeFromReceipt)
    }
  }

  @Test("a report in pieces, down to single bytes, is the report")
  func halfLines() async throws {
    let line = Array((Gpsd.report(Self.good) + "\r\n").utf8)
    var script: [Gpsd.Step] = [.say(Gpsd.version), .say(Gpsd.devices)]
    script += [.bytes(Array(line[..<20])), .hold, .bytes(Array(line[20..<21])), .hold, .bytes(Array(line[21...]))]
    try await Gpsd.with(script) { gpsd, locator in
      let refusal = await locator.refusal(within: .milliseconds(300))
      #expect(refusal?.code == .timeout)
      async let waiting = fix(locator)
      gpsd.go()
      gpsd.go()
      let fix = try await waiting
      #expect(fix.latitude == 10.5)
    }
  }

  @Test("many reports in one segment are all read, though poll(2) wakes once")
  func oneSegment() async throws {
    var text = ""
    for step in 1...200 { text += Gpsd.report(#""lat":10.5,"lon":\#(step)"#) + "\r\n" }
    let lines = [Gpsd.version, Gpsd.devices].map { $0 + "\r\n" }.joined() + text
    try await Gpsd.with([.hold, .bytes(Array(lines.utf8))]) { gpsd, locator in
      let news = await locator.follow(.gpsd)
      gpsd.go()
      // 181…200 are no place.
      let hasRead = try await withDeadline(.seconds(30)) {
        for await piece in news { if case .fix(let fix, _) = piece, fix.longitude == 180 { return true } }
        return false
      }
      #expect(hasRead)
    }
  }

  @Test("a line of a megabyte ends the connection, and the next one works")
  func hugeLine() async throws {
    let huge = Array(#"{"class":"TPV","device":""#.utf8) + [UInt8](repeating: 0x61, count: 1 << 20)
    try await Gpsd.with(
      [.say(Gpsd.version), .say(Gpsd.devices), .bytes(huge)],
      [.say(Gpsd.version), .say(Gpsd.devices), .say(Gpsd.report(Self.good))]
    ) { gpsd, locator in
      let fix = try await fix(locator)
      #expect(fix.latitude == 10.5 && gpsd.connections >= 2)
    }
  }

  @Test("reports before the greeting, without a list of receivers, of classes that nobody knows: a fix is a fix")
  func wrongOrder() async throws {
    try await Gpsd.with([
      .say(#"{"class":"SKY","device":"/dev/a","satellites":[{"PRN":1,"used":true}]}"#),
      .say(#"{"class":"WORMHOLE","mode":3,"lat":1,"lon":1}"#), .say(#"{"lat":1,"lon":1,"mode":3}"#), .say("[]"),
      .say(""),
      .say("TPV"), .say(#"{"class":"TPV"}"#), .say(Gpsd.report(Self.good)), .say(Gpsd.devices), .say(Gpsd.version),
    ]) { _, locator in
      let fix = try await fix(locator)
      #expect(fix.latitude == 10.5 && fix.satellites == Fix.Satellites(used: 1, visible: 1))
    }
  }

  @Test("a fix told with an old mode, or without one, is none")
  func modes() async throws {
    for mode in ["0", "1", "7", "-3", "null", "\"3\""] {
      try await Gpsd.with([.say(Gpsd.version), .say(Gpsd.devices), .say(Gpsd.report(Self.good, mode: mode))]) {
        _, locator in
        let refusal = await locator.refusal(within: .milliseconds(300))
        #expect(refusal?.code == .timeout, "\(mode)")
      }
    }
  }

  @Test("one that takes the connection and never says a word: a timeout, on time")
  func silent() async throws {
    try await Gpsd.with([]) { _, locator in
      let began = Monotonic.now()
      let refusal = await locator.refusal(within: .seconds(1))
      #expect(refusal?.code == .timeout && Monotonic.now() - began >= .seconds(1))
    }
  }

  @Test("one that hangs up at each connection is tried again with rests, until the deadline")
  func hangsUp() async throws {
    try await Gpsd.with([.hangUp]) { gpsd, locator in
      let refusal = await locator.refusal(within: .seconds(1))
      #expect(refusal != nil)
      #expect((1...12).contains(gpsd.connections), "\(gpsd.connections)")
    }
  }

  @Test("a receiver that is unplugged: said at once, and one that is plugged in answers")
  func unplugged() async throws {
    let gone = #"{"class":"DEVICE","path":"/dev/a","activated":0}"#
    try await Gpsd.with([
      .say(Gpsd.version), .say(Gpsd.devices), .hold, .say(gone), .say(Gpsd.noDevices), .hold, .say(Gpsd.devices),
      .say(Gpsd.report(Self.good)),
    ]) { gpsd, locator in
      async let waiting = locator.refusal(within: .seconds(30))
      gpsd.go()
      #expect(await waiting?.code == .unavailable)
      let later = await locator.refusal(within: .seconds(30))
      #expect(later?.code == .unavailable)
      let news = await locator.follow(.gpsd)
      gpsd.go()
      let isBack = try await withDeadline(.seconds(30)) {
        for await piece in news { if case .fix = piece { return true } }
        return false
      }
      #expect(isBack)
    }
  }

  @Test("nobody listens there: said at once, with the address and what to do")
  func nobody() async throws {
    let loop = EventLoop(name: "test")
    defer { loop.stop() }
    let locator = GpsdBed.locator(GpsdAddress(host: "127.0.0.1", port: SampleGpsd.freePort()), loop: loop)
    let refusal = try #require(await locator.refusal(within: .seconds(30)))
    #expect(refusal.code == .unavailable && refusal.summary.contains("127.0.0.1") && refusal.remedy != nil)
    let nowhere = GpsdBed.locator(GpsdAddress(host: "nowhere.invalid"), loop: loop)
    #expect(await nowhere.refusal(within: .seconds(30))?.summary.contains("no such host") == true)
    await locator.close()
    await nowhere.close()
  }

  @Test(
    "a host that takes no connection and refuses none: the answer is on time, and no thread is left for each question")
  func blackHole() async throws {
    // A listener whose queue is full: Linux drops what comes on top.
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    defer { close(descriptor) }
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    var fillers: [Int32] = []
    withUnsafeMutablePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
        _ = bind(descriptor, pointer, length) | listen(descriptor, 0) | getsockname(descriptor, pointer, &length)
        for _ in 0..<4 {
          let filler = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue), 0)
          _ = connect(filler, pointer, length)
          fillers.append(filler)
        }
      }
    }
    defer { for filler in fillers { close(filler) } }
    let loop = EventLoop(name: "test")
    defer { loop.stop() }
    let locator = GpsdBed.locator(GpsdAddress(host: "127.0.0.1", port: UInt16(bigEndian: address.sin_port)), loop: loop)
    let first = await locator.refusal(within: .milliseconds(500))
    #expect(first?.code == .timeout)
    for _ in 0..<10 {
      let next = await locator.refusal(within: .milliseconds(200))
      #expect(next != nil)
    }
    let threads = Files.list("/proc/self/task").filter { id in
      Files.text("/proc/self/task/\(id)/comm", limit: 64)?.trimmed == "gpsd"
    }
    #expect(threads.count <= 8, "\(threads.count)")
    await locator.close()
  }
}

/// libgps must be the one that this program was built for.
@Suite struct GpsdLibraryTests {
  @Test("the system's libgps fits the header that this was built with")
  func fits() throws { _ = try GpsdLibrary.shared.get() }

  @Test("a library that keeps its record differently is refused with a reason, and a missing one too")
  func misfit() async throws {
    let folder = TemporaryFolder()
    try folder.write(
      "libgps.c",
      """
      #include <string.h>
      int gps_open(const char *h, const char *p, void *d) { return -1; }
      int gps_close(void *d) { return 0; }
      int gps_read(void *d, char *m, int n) { return -1; }
      _Bool gps_waiting(const void *d, int t) { return 0; }
      int gps_stream(void *d, unsigned f, void *x) { return 0; }
      int gps_send(void *d, const char *f, ...) { return 0; }
      int gps_unpack(char *b, void *d) { memset(d, 1, 4096); return 0; }
      """)
    let loop = EventLoop(name: "test")
    defer { loop.stop() }
    let compiler = try await Subprocess.start(
      .init("cc", ["-shared", "-fPIC", "-w", "-o", folder("libgps.so.99"), folder("libgps.c")]), loop: loop)
    #expect(await compiler.waitForExit() == .code(0))
    for (names, part) in [([folder("libgps.so.99")], "a fix elsewhere"), ([folder("libgps.so.98")], "not installed")] {
      do throws(LocationError) {
        _ = try GpsdLibrary(names: names)
        Issue.record("it was taken")
      } catch {
        #expect(error.code == .unavailable && error.summary.contains(part) && error.remedy != nil, "\(error)")
      }
    }
    _ = try GpsdLibrary(names: [folder("libgps.so.99"), "libgps.so.28", "libgps.so.30"])
  }
}
