import CGPS
import Glibc
import System

/// libgps' functions, from the one library whose record is that of the header this program was built with.
///
/// The record (`gps_data_t`, 24 KB) changes with each incompatible release of gpsd, and with it the library's number; the library itself
/// tells no version. So its number is not believed either: it must take a report apart into just those places that we read.
// @unchecked Sendable: the table is filled once and only read after that.
final class GpsdLibrary: @unchecked Sendable {
  let table: cgps

  /// Debian 12 and Raspberry Pi OS have .28, Ubuntu 24.04 and Debian 13 .30.
  private static let names = (28...34).map { "libgps.so.\($0)" }
  static let shared: Result<GpsdLibrary, LocationError> = Result { () throws(LocationError) in
    try GpsdLibrary(names: names)
  }

  /// The header's version, for example `11.0`.
  static var headerVersion: String { "\(GPSD_API_MAJOR_VERSION).\(GPSD_API_MINOR_VERSION)" }

  /// Takes the first of `names` that is there and fits.
  init(names: [String]) throws(LocationError) {
    var misfits: [String] = []
    for name in names {
      guard let library = try? SharedLibrary(name) else { continue }
      var table = cgps()
      if let missing = cgps_load(&table, library.handle) {
        misfits.append("\(name) has no \(String(cString: missing))")
      } else if let misfit = Self.misfit(table) {
        misfits.append("\(name) keeps \(misfit) elsewhere")
      } else {
        self.table = table
        return
      }
    }
    if misfits.isEmpty {
      throw LocationError(
        .unavailable, "gpsd can't be asked: its library libgps is not installed.",
        remedy: "sudo apt install libgps28   (its name ends in another number on another system: apt search libgps)")
    }
    throw LocationError(
      .unavailable,
      "gpsd can't be asked: this program was built for libgps with API \(Self.headerVersion), and "
        + misfits.joined(separator: ", and ") + ".", remedy: "Build it on this system: make build")
  }

  /// Room for the record of any release: what lies behind the part we read may be larger than in ours.
  static let room = MemoryLayout<gps_data_t>.size + (256 << 10)

  /// A record, zeroed; to be freed. The library keeps pointers into it, so it never moves.
  static func makeRecord() -> UnsafeMutablePointer<gps_data_t> {
    guard let memory = calloc(1, room) else { fatalError("no memory") }
    return memory.bindMemory(to: gps_data_t.self, capacity: 1)
  }

  private static let samples = [
    #"{"class":"TPV","device":"/dev/a","mode":3,"time":"2026-01-02T03:04:05.500Z","lat":52.5,"lon":4.25,"altHAE":11.5,"#
      + #""altMSL":12.5,"track":45.5,"speed":9.5,"epx":2.5,"epy":3.5,"eph":4.5}"#,
    #"{"class":"DEVICES","devices":[{"class":"DEVICE","path":"/dev/b"}]}"#,
    #"{"class":"SKY","device":"/dev/c","satellites":[{"PRN":1,"used":true},{"PRN":2,"used":false}]}"#,
  ]

  /// The first part of the record that this library keeps elsewhere than the header says; nil when all fits.
  private static func misfit(_ table: cgps) -> String? {
    let record = makeRecord()
    defer { free(record) }
    func take(_ sample: String) -> UInt64 {
      record.pointee.set = 0
      // It writes into the text.
      var text = Array((sample + "\r\n").utf8CString)
      _ = text.withUnsafeMutableBufferPointer { table.gps_unpack($0.baseAddress, record) }
      return record.pointee.set
    }
    let isReport = take(samples[0]) & UInt64(MODE_SET) != 0
    let fix = record.pointee.fix
    let numbers = [
      fix.latitude, fix.longitude, fix.altHAE, fix.altMSL, fix.track, fix.speed, fix.epx, fix.epy, fix.eph,
    ]
    if !isReport || fix.mode != 3 || numbers != [52.5, 4.25, 11.5, 12.5, 45.5, 9.5, 2.5, 3.5, 4.5] { return "a fix" }
    if fix.time.tv_sec != 1_767_323_045 || fix.time.tv_nsec != 500_000_000 { return "the time" }
    if String(cString: cgps_device(record)) != "/dev/a" { return "the receiver's name" }
    if take(samples[1]) & UInt64(DEVICELIST_SET) == 0 || record.pointee.devices.ndevices != 1
      || String(cString: cgps_listed_device(record)) != "/dev/b"
    {
      return "the list of receivers"
    }
    if take(samples[2]) & UInt64(SATELLITE_SET) == 0 || record.pointee.satellites_used != 1
      || record.pointee.satellites_visible != 2
    {
      return "the satellites"
    }
    return nil
  }

  /// gps_open's reason in words.
  static func reason(_ code: Int32) -> String {
    switch code {
    case -1: "its port has no such name"
    case -2: "there is no such host"
    case -6: "nothing answers there"
    default: "the connection failed (\(code))"
    }
  }
}
