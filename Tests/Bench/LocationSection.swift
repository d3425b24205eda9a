import GatewayProtocol
import Glibc
import Location
import System

/// Where the machine is: how soon an agent knows it, from a real gpsd that gpsfake feeds with the recorded drive.
extension Section {
  static let location = Section(name: "location") { options in
    let loop = EventLoop(name: "bench gpsd")
    defer { loop.stop() }
    let gpsd = SampleGpsd(logs: [try sampleLog()], loop: loop)
    do throws(LocationError) { try await gpsd.start() } catch { throw BenchError(error.description) }
    do {
      let address = await gpsd.address
      let figures = try await live(options, address) + [try await cold(options, address, loop)]
      await gpsd.stop()
      return figures
    } catch {
      await gpsd.stop()
      throw error
    }
  }

  private static func sampleLog() throws -> String {
    let path = "samples/location/drive.nmea"
    guard Files.exists(path) else { throw BenchError("\(path) is not here: run it in the source folder") }
    return path
  }

  /// `node.invoke location.get`, from the operator through the gateway to the node and back, while the node's watch is open.
  private static func live(_ options: Options, _ address: GpsdAddress) async throws -> [Figure] {
    let bed = try await TestBed(options, allow: ["location.get", "device.info"])
    do {
      try Files.makeFolder(bed.state)
      try Files.writeAtomically(
        Array(#"{"location":true,"location.always":true}"#.utf8), to: bed.state + "/switches.json")
      let settings =
        "[location]\nprovider = \"gpsd\"\ngpsd_host = \"\(address.host)\"\ngpsd_port = \(address.port)\n"
        + "[signs]\nuse = \"none\"\n"
      try Files.writeAtomically(Array(settings.utf8), to: bed.folder + "/location.toml")
      let child = try Child(options.program, await bed.runArguments() + ["--config", bed.folder + "/location.toml"])
      defer { child.kill() }
      let node = try await bed.approve(awaiting: "location.get")
      let client = try await bed.makeOperator()
      _ = try await client.request("node.invoke", Operator.invoke("location.get", of: node))
      // Until it knows how often the receiver reports.
      try await Task.sleep(for: .seconds(3))
      var place = Samples()
      var info = Samples()
      for _ in 0..<options.times(500) {
        var start = Monotonic.now()
        _ = try await client.request("node.invoke", Operator.invoke("location.get", of: node))
        place.add((Monotonic.now() - start).milliseconds)
        start = Monotonic.now()
        _ = try await client.request("node.invoke", Operator.invoke("device.info", of: node))
        info.add((Monotonic.now() - start).milliseconds)
        try await Task.sleep(for: .milliseconds(7))
      }
      await client.close()
      await bed.close()
      return [
        Figure(
          "`node.invoke location.get`, live watch", unit: "ms", value: place.median, target: .atMost(2),
          comparison: ("device.info", info.median), note: "p95 \(Report.text(place.quantile(0.95), "ms"))")
      ]
    } catch {
      await bed.close()
      throw error
    }
  }

  /// From the moment that gpsd's first report of a position is on a socket beside ours to the answer to who asked while nothing was open.
  private static func cold(_ options: Options, _ address: GpsdAddress, _ loop: EventLoop) async throws -> Figure {
    let beside = try ReportClock(port: address.port)
    defer { beside.stop() }
    var settings = LocationOptions()
    settings.choice = .only(.gpsd)
    settings.gpsd = address
    settings.linger = .zero
    let locator = Locator(options: settings, systemBus: SharedBus(.system, loop: loop))
    var times = Samples()
    for round in 0..<options.times(40) {
      _ = try await locator.locate(LocationRequest(deadline: Monotonic.now() + .seconds(30)))
      let answered = Monotonic.now()
      guard let reported = beside.last(before: answered) else { continue }
      if round > 0 { times.add((answered - reported).milliseconds) }
      try await Task.sleep(for: .milliseconds(50 + 37 * (round % 9)))
    }
    await locator.close()
    return Figure(
      "cold `location.get` after gpsd's first report", unit: "ms", value: times.median, target: .atMost(20),
      note: "worst \(Report.text(times.quantile(1), "ms")); connecting included")
  }
}

/// When gpsd's reports of positions come in, on a socket of its own.
private final class ReportClock: Sendable {
  private let descriptor: Int32
  private let moments = Lock<[Duration]>([])

  init(port: UInt16) throws {
    descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    let descriptor = descriptor
    let code = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
    if code != 0 { throw BenchError("gpsd does not take a second client") }
    let watch = Array("?WATCH={\"enable\":true,\"json\":true}\n".utf8)
    _ = write(descriptor, watch, watch.count)
    _ = startThread(name: "beside") { [self] in
      var buffer = [UInt8](repeating: 0, count: 65536)
      let mark = Array(#""class":"TPV""#.utf8)
      while true {
        let count = read(descriptor, &buffer, buffer.count)
        if count <= 0 { return }
        let now = Monotonic.now()
        let isReport = buffer[..<count].firstRange(of: mark) != nil
        if isReport { moments.withLock { $0.append(now) } }
      }
    }
  }

  func last(before moment: Duration) -> Duration? { moments.withLock { $0.last { $0 <= moment } } }

  func stop() {
    shutdown(descriptor, Int32(SHUT_RDWR))
    close(descriptor)
  }
}
