import Foundation
import Glibc
import Synchronization
import System
import TestSupport

@testable import Location

/// What a receiver says, as a log for gpsfake: NMEA 0183 with checksums, one epoch after another, beginning now.
struct NMEALog {
  enum Kind: Sendable {
    /// Drives north-east at 5 m/s with a good view of the sky.
    case drive
    /// The same, but after `fixes` epochs it sees nothing for as long as the log lasts.
    case loss(after: Int)
    /// Coordinates, and never a time or a date.
    case noTime
    /// Its date is off by 1024 weeks.
    case rollover
    /// Three satellites: no altitude.
    case flat
    /// Sees nothing at all.
    case blind
  }

  /// Where the drive begins.
  static let start = (latitude: 52.37, longitude: 4.895)
  static let sentences = 3

  /// `pace` is gpsfake's time from sentence to sentence, so that the log's clock goes as fast as the real one.
  static func text(_ kind: Kind, epochs: Int = 200, pace: Duration = .milliseconds(50), shift: Double = 0) -> String {
    var text = ""
    let began = Date().timeIntervalSince1970
    for epoch in 0..<epochs {
      let moment = Date(timeIntervalSince1970: began + Double(epoch * sentences) * pace.inSeconds)
      text += epochText(kind, epoch, moment, shift)
    }
    return text
  }

  private static func epochText(_ kind: Kind, _ epoch: Int, _ moment: Date, _ shift: Double) -> String {
    var calendar = Calendar(identifier: .gregorian)
    calendar.timeZone = TimeZone(secondsFromGMT: 0)!
    var dated = moment
    if case .rollover = kind { dated = moment.addingTimeInterval(-1024 * 7 * 86400) }
    let part = calendar.dateComponents([.year, .month, .day, .hour, .minute, .second, .nanosecond], from: dated)
    let time = String(
      format: "%02d%02d%02d.%02d", part.hour!, part.minute!, part.second!, part.nanosecond! / 10_000_000)
    let date = String(format: "%02d%02d%02d", part.day!, part.month!, part.year! % 100)
    let latitude = angle(start.latitude + shift + Double(epoch) * 0.0001, digits: 2)
    let longitude = angle(start.longitude + Double(epoch) * 0.0001, digits: 3)
    let used = ",01,02,03,04,05,06,07,08,,,,,1.6,0.9,1.3"
    func sees() -> Bool {
      switch kind {
      case .blind: false
      case .loss(let fixes): epoch < fixes
      default: true
      }
    }
    guard sees() else {
      return sentence("GPGGA,\(time),,,,,0,00,,,M,,M,,") + sentence("GPGSA,A,1,,,,,,,,,,,,,,,")
        + sentence("GPRMC,\(time),V,,,,,,,\(date),,,N")
    }
    switch kind {
    case .noTime:
      return sentence("GPGGA,,\(latitude),N,\(longitude),E,1,08,0.9,12.3,M,46.9,M,,") + sentence("GPGSA,A,3\(used)")
        + sentence("GPVTG,045.0,T,,M,010.0,N,018.5,K,A")
    case .flat:
      return sentence("GPGGA,\(time),\(latitude),N,\(longitude),E,1,03,2.9,,M,,M,,")
        + sentence("GPGSA,A,2,01,02,03,,,,,,,,,,3.6,2.9,2.3") + sentence("GPVTG,045.0,T,,M,010.0,N,018.5,K,A")
    default:
      return sentence("GPGGA,\(time),\(latitude),N,\(longitude),E,1,08,0.9,12.3,M,46.9,M,,")
        + sentence("GPGSA,A,3\(used)")
        + sentence("GPRMC,\(time),A,\(latitude),N,\(longitude),E,010.0,045.0,\(date),,,A")
    }
  }

  /// `5222.2000` for 52.37°.
  private static func angle(_ degrees: Double, digits: Int) -> String {
    let whole = Int(degrees)
    return String(format: "%0\(digits)d%07.4f", whole, (degrees - Double(whole)) * 60)
  }

  private static func sentence(_ text: String) -> String {
    let sum = text.utf8.reduce(0, ^)
    return "$\(text)*\(String(format: "%02X", sum))\r\n"
  }
}

/// A gpsd fed with logs, and a locator that asks it.
struct GpsdBed {
  let folder: TemporaryFolder
  let loop: EventLoop
  let gpsd: SampleGpsd
  let locator: Locator

  /// Runs `body` with a gpsd that has one receiver for each log.
  static func with(
    _ logs: [String], pace: Duration = .milliseconds(50), linger: Duration = .seconds(30),
    _ body: (GpsdBed) async throws -> Void
  ) async throws {
    let folder = TemporaryFolder()
    let loop = EventLoop(name: "test gpsd")
    for (index, log) in logs.enumerated() { try folder.write("\(index).nmea", log) }
    let gpsd = SampleGpsd(logs: logs.indices.map { folder("\($0).nmea") }, pace: pace, loop: loop)
    try await gpsd.start()
    let locator = Self.locator(await gpsd.address, linger: linger, loop: loop)
    do {
      try await body(GpsdBed(folder: folder, loop: loop, gpsd: gpsd, locator: locator))
    } catch {
      await end(locator, gpsd, loop)
      throw error
    }
    await end(locator, gpsd, loop)
  }

  static func locator(_ address: GpsdAddress, linger: Duration = .seconds(30), loop: EventLoop) -> Locator {
    var options = LocationOptions()
    options.choice = .only(.gpsd)
    options.gpsd = address
    options.linger = linger
    return Locator(options: options, systemBus: SharedBus(.address("unix:path=/nonexistent"), loop: loop))
  }

  private static func end(_ locator: Locator, _ gpsd: SampleGpsd, _ loop: EventLoop) async {
    await locator.close()
    await gpsd.stop()
    loop.stop()
  }

  func locate(within limit: Duration = .seconds(20), maxAge: Duration? = nil) async throws(LocationError) -> Fix {
    try await locator.locate(LocationRequest(deadline: Monotonic.now() + limit, maxAge: maxAge)).fix
  }
}

extension Locator {
  /// The reason why there is none.
  func refusal(within limit: Duration, maxAge: Duration? = nil) async -> LocationError? {
    do throws(LocationError) {
      _ = try await locate(LocationRequest(deadline: Monotonic.now() + limit, maxAge: maxAge))
      return nil
    } catch {
      return error
    }
  }
}

/// A gpsd that says what a real one can't be brought to say: each connection gets the next script, the last one again and again.
final class ScriptedGpsd: Sendable {
  enum Step: Sendable {
    case say(String)
    case bytes([UInt8])
    /// Until the test lets it go on.
    case hold
    case hangUp
  }

  static let version = #"{"class":"VERSION","release":"3.22","rev":"3.22","proto_major":3,"proto_minor":14}"#
  static let devices =
    #"{"class":"DEVICES","devices":[{"class":"DEVICE","path":"/dev/a","activated":"2026-01-01T00:00:00.000Z"}]}"#
  static let noDevices = #"{"class":"DEVICES","devices":[]}"#

  let port: UInt16
  private let descriptor: Int32
  private let scripts: [[Step]]
  private let state = Lock((connections: 0, released: 0, open: [Int32](), isEnding: false))

  var address: GpsdAddress { GpsdAddress(host: "127.0.0.1", port: port) }
  /// How many have connected so far.
  var connections: Int { state.withLock { $0.connections } }
  /// Lets one `hold` pass.
  func go() { state.withLock { $0.released += 1 } }

  init(_ scripts: [Step]...) throws {
    self.scripts = scripts
    descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let descriptor = self.descriptor
    let code = withUnsafeMutablePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(descriptor, $0, length) | listen(descriptor, 16) | getsockname(descriptor, $0, &length)
      }
    }
    if code != 0 { throw SystemError("listen", code: errno) }
    port = UInt16(bigEndian: address.sin_port)
    _ = startThread(name: "scripted gpsd") { [self] in
      while true {
        let client = accept(descriptor, nil, nil)
        if client < 0 {
          // Only the end shuts it down; short of descriptors, for one, it goes on.
          if errno != EINVAL {
            usleep(1000)
            continue
          }
          // Closed here and not by `stop`, after which the number may be somebody else's.
          close(descriptor)
          return
        }
        let (number, isEnding) = state.withLock { state in
          state.connections += 1
          state.open.append(client)
          return (state.connections, state.isEnding)
        }
        if isEnding {
          shutdown(client, Int32(SHUT_RDWR))
          continue
        }
        _ = startThread(name: "scripted client") { [self] in
          play(scripts[min(number, scripts.count) - 1], to: client)
        }
      }
    }
  }

  func stop() {
    state.withLock { state in
      state.isEnding = true
      for client in state.open { shutdown(client, Int32(SHUT_RDWR)) }
    }
    shutdown(descriptor, Int32(SHUT_RDWR))
  }

  private func play(_ script: [Step], to client: Int32) {
    for step in script {
      switch step {
      case .say(let line): write(Array((line + "\r\n").utf8), to: client)
      case .bytes(let bytes): write(bytes, to: client)
      case .hold:
        while true {
          let goesOn = state.withLock { state in
            if state.released > 0 {
              state.released -= 1
              return true
            }
            return state.isEnding
          }
          if goesOn { break }
          usleep(2000)
        }
      case .hangUp: shutdown(client, Int32(SHUT_RDWR))
      }
    }
    // What the client says is taken, and nothing is made of it.
    var buffer = [UInt8](repeating: 0, count: 4096)
    while read(client, &buffer, buffer.count) > 0 {}
    state.withLock { state in state.open.removeAll { $0 == client } }
    close(client)
  }

  private func write(_ bytes: [UInt8], to client: Int32) {
    var sent = 0
    while sent < bytes.count {
      let count = bytes.withUnsafeBytes {
        send(client, $0.baseAddress! + sent, bytes.count - sent, Int32(MSG_NOSIGNAL))
      }
      if count <= 0 { return }
      sent += count
    }
  }

  /// A report with these members beside the mode.
  static func report(_ members: String, mode: String = "3", device: String = "/dev/a") -> String {
    #"{"class":"TPV","device":"\#(device)","mode":\#(mode)"# + (members.isEmpty ? "" : ",") + members + "}"
  }

  /// Runs `body` with a locator that asks it.
  static func with(_ scripts: [Step]..., body: (ScriptedGpsd, Locator) async throws -> Void) async throws {
    let gpsd: ScriptedGpsd
    switch scripts.count {
    case 1: gpsd = try ScriptedGpsd(scripts[0])
    case 2: gpsd = try ScriptedGpsd(scripts[0], scripts[1])
    default: gpsd = try ScriptedGpsd(scripts[0], scripts[1], scripts[2])
    }
    let loop = EventLoop(name: "test gpsd")
    let locator = GpsdBed.locator(gpsd.address, loop: loop)
    do {
      try await body(gpsd, locator)
    } catch {
      await locator.close()
      gpsd.stop()
      loop.stop()
      throw error
    }
    await locator.close()
    gpsd.stop()
    loop.stop()
  }
}
