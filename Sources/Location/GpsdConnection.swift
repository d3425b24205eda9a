import CGPS
import Glibc
import System

/// Where gpsd listens.
public struct GpsdAddress: Sendable, Equatable, CustomStringConvertible {
  public var host: String
  public var port: UInt16
  public init(host: String = "localhost", port: UInt16 = 2947) {
    self.host = host
    self.port = port
  }
  fileprivate var isThisMachine: Bool { ["localhost", "127.0.0.1", "::1"].contains(host) }
  public var description: String { "gpsd at \(host.contains(":") ? "[\(host)]" : host):\(port)" }
}

/// The feed that is gpsd, through libgps: `gps_open`, which blocks, has a thread of its own and a deadline; then the descriptor is watched
/// on the loop, and after each wake the record is read until libgps has nothing left.
final class GpsdConnection: Sendable {
  /// What to ask of gpsd.
  enum Purpose: Sendable {
    /// All its receivers' reports: starts them.
    case reports
    /// Only its greeting and the list of receivers: starts nothing.
    case greeting
  }

  private struct State {
    var deliver: FixFeed.Deliver?
    /// Counts openings and closings.
    var number: UInt64 = 0
    /// A thread is in gps_open, and can't be ended from outside.
    var isOpening = false
    var stream: Stream?
    var release: String?
  }

  let address: GpsdAddress
  private let loop: EventLoop
  private let library: @Sendable () -> Result<GpsdLibrary, LocationError>
  private let purpose: Purpose
  private let state = Lock(State())

  /// How long a connection may take to be made: a host that drops what is sent to it would take minutes.
  static let patience: Duration = .seconds(5)

  init(
    _ address: GpsdAddress, purpose: Purpose = .reports, loop: EventLoop,
    library: @escaping @Sendable () -> Result<GpsdLibrary, LocationError> = { GpsdLibrary.shared }
  ) {
    self.address = address
    self.purpose = purpose
    self.loop = loop
    self.library = library
  }

  var feed: FixFeed {
    FixFeed(open: { [self] _, deliver in open(deliver) }, close: { [self] in close() })
  }

  /// gpsd's version as it greeted, for example `3.22`.
  var release: String? { state.withLock { $0.release } }

  // MARK: Opening

  private func open(_ deliver: @escaping FixFeed.Deliver) {
    let (number, isOpening) = state.withLock { state in
      defer { state.isOpening = true }
      state.number += 1
      state.deliver = deliver
      return (state.number, state.isOpening)
    }
    // A thread that is in gps_open already brings the connection to who wants it then: there is never more than one.
    if !isOpening, !startThread(name: "gpsd", { [self] in connect() }) {
      state.withLock { $0.isOpening = false }
      let error = LocationError(.unavailable, "No thread is left to connect to \(address).")
      return loop.perform { [self] in end(.failed(error)) }
    }
    _ = loop.after(Self.patience) { [self] in
      let isLate = state.withLock { $0.isOpening && $0.number == number }
      let seconds = Int(Self.patience.inSeconds)
      if isLate { end(.failed(LocationError(.unavailable, "\(address) did not answer within \(seconds) s."))) }
    }
  }

  /// On a thread of its own: all that may block.
  private func connect() {
    let result = Result { () throws(LocationError) in try Stream(address, try library().get(), purpose) }
    loop.perform { [self] in
      let isWanted = state.withLock { state in
        state.isOpening = false
        return state.deliver != nil
      }
      guard isWanted else { return }
      switch result {
      case .success(let stream): begin(stream)
      case .failure(let error): end(.failed(error))
      }
    }
  }

  // MARK: On the loop

  private func begin(_ stream: Stream) {
    state.withLock { $0.stream = stream }
    stream.watch(on: loop) { [weak self, weak stream] in
      if let self, let stream { read(stream) }
    }
    // Whoever hears it may have lost interest, and close.
    deliver(.opened)
    // What came while the thread still had it.
    read(stream)
  }

  private func deliver(_ event: FeedEvent) { state.withLock { $0.deliver }?(event) }

  /// Delivers the last event.
  private func end(_ event: FeedEvent) {
    let deliver = state.withLock { state in
      defer { state.deliver = nil }
      return state.deliver
    }
    close()
    deliver?(event)
  }

  private func close() {
    let stream = state.withLock { state in
      state.deliver = nil
      state.number += 1
      defer { state.stream = nil }
      return state.stream
    }
    stream?.unwatch(on: loop)
  }

  /// Reads until libgps has nothing left: poll(2) wakes once for three lines in one segment, and not again for what libgps has taken.
  /// After 64 records the others of this loop have their turn.
  private func read(_ stream: Stream) {
    for _ in 0..<64 {
      guard state.withLock({ $0.stream === stream }) else { return }
      switch stream.next() {
      case nil:
        return end(.failed(LocationError(.unavailable, "\(address) closed the connection, or sent what is no report.")))
      case .some(let record):
        if let release = record.release { state.withLock { $0.release = release } }
        for event in record.events { deliver(event) }
      }
      guard state.withLock({ $0.stream === stream }) else { return }
      if !stream.hasMore { return }
    }
    loop.perform { [weak self, weak stream] in
      if let self, let stream { read(stream) }
    }
  }
}

/// An open connection and the record that libgps fills from it.
// @unchecked Sendable: made on the thread that opens it and used on the loop after that; never by two at once.
private final class Stream: @unchecked Sendable {
  struct Record {
    var release: String?
    var events: [FeedEvent] = []
  }

  private let library: GpsdLibrary
  private let data: UnsafeMutablePointer<gps_data_t>
  private let line: UnsafeMutableBufferPointer<CChar>
  private var token: EventLoop.Token?
  private var satellites: [String: Fix.Satellites] = [:]

  /// Blocks.
  init(_ address: GpsdAddress, _ library: GpsdLibrary, _ purpose: GpsdConnection.Purpose) throws(LocationError) {
    self.library = library
    data = GpsdLibrary.makeRecord()
    let code = library.table.gps_open(address.host, String(address.port), data)
    // Its own reason stands in errno, as a negative number.
    let reason = errno < 0 ? errno : code
    if code != 0 {
      free(data)
      throw LocationError(
        .unavailable, "\(address) can't be reached: \(GpsdLibrary.reason(reason)).",
        remedy: address.isThisMachine && !Files.exists("/usr/sbin/gpsd")
          ? "sudo apt install gpsd" : "Start it there, for example: sudo systemctl start gpsd.socket")
    }
    line = .allocate(capacity: 16 << 10)
    line.initialize(repeating: 0)
    let descriptor = Int32(data.pointee.gps_fd)
    // libgps would wait for the rest of a segment on the loop.
    _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK)
    _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
    var isSent = true
    switch purpose {
    case .reports: isSent = library.table.gps_stream(data, UInt32(WATCH_ENABLE | WATCH_JSON), nil) >= 0
    case .greeting: isSent = askForReceivers()
    }
    if !isSent { throw LocationError(.unavailable, "\(address) closed the connection at once.") }
  }

  // Nothing watches it any more.
  deinit {
    _ = library.table.gps_close(data)
    free(data)
    line.deallocate()
  }

  func watch(on loop: EventLoop, _ handler: @escaping () -> Void) {
    token = loop.watch(Int32(data.pointee.gps_fd), .readable) { _ in handler() }
  }

  func unwatch(on loop: EventLoop) {
    if let token { loop.unwatch(token) }
    token = nil
  }

  /// Whether libgps has a line, or the socket has more.
  var hasMore: Bool { library.table.gps_waiting(data, 0) }

  private func askForReceivers() -> Bool {
    withUnsafePointer(to: library.table) { cgps_ask_devices($0, data) } >= 0
  }

  /// What the next line says; empty for half a line, nil when the connection is over. A line that libgps can't hold (some 10 KB) ends it
  /// too: it gives −1 then, with no errno.
  func next() -> Record? {
    let receivedAt = Monotonic.now()
    let receivedMs = WallClock.milliseconds()
    data.pointee.set = 0
    line[0] = 0
    if library.table.gps_read(data, line.baseAddress, Int32(line.count)) < 0 { return nil }
    let set = data.pointee.set
    var record = Record()
    if set & UInt64(VERSION_SET) != 0 { record.release = String(cString: cgps_release(data)) }
    if set & UInt64(DEVICELIST_SET) != 0 {
      record.events.append(.receivers(Int(max(0, data.pointee.devices.ndevices))))
    }
    if set & UInt64(SATELLITE_SET) != 0 { record.events.append(sky()) }
    if set & UInt64(MODE_SET) != 0 { record.events.append(position(receivedAt, receivedMs)) }
    // A receiver was plugged or unplugged. libgps does not take these apart reliably, so gpsd is asked for the list.
    if startsLine(with: #"{"class":"DEVICE","#), !askForReceivers() { return nil }
    return record
  }

  private func startsLine(with text: StaticString) -> Bool {
    text.withUTF8Buffer { wanted in strncmp(line.baseAddress!, wanted.baseAddress!, wanted.count) == 0 }
  }

  private var receiver: String { String(cString: cgps_device(data)) }

  private func sky() -> FeedEvent {
    let visible = Int(min(max(data.pointee.satellites_visible, 0), 1000))
    let seen = Fix.Satellites(used: min(Int(max(data.pointee.satellites_used, 0)), visible), visible: visible)
    if satellites.count < Receivers.limit || satellites[receiver] != nil { satellites[receiver] = seen }
    return .satellites(seen, receiver: receiver)
  }

  private func position(_ receivedAt: Duration, _ receivedMs: Int64) -> FeedEvent {
    var report = GpsdReport(mode: Int(data.pointee.fix.mode))
    if data.pointee.set & UInt64(TIME_SET) != 0 {
      report.time = (Int64(data.pointee.fix.time.tv_sec), Int64(data.pointee.fix.time.tv_nsec))
    }
    report.latitude = data.pointee.fix.latitude
    report.longitude = data.pointee.fix.longitude
    report.altitudeMSL = data.pointee.fix.altMSL
    report.altitudeHAE = data.pointee.fix.altHAE
    report.speed = data.pointee.fix.speed
    report.track = data.pointee.fix.track
    report.eph = data.pointee.fix.eph
    report.epx = data.pointee.fix.epx
    report.epy = data.pointee.fix.epy
    let receiver = receiver
    guard
      let fix = report.fix(receivedAt: receivedAt, receivedMs: receivedMs, satellites: satellites[receiver])
    else { return .noFix(receiver: receiver) }
    return .fix(fix, receiver: receiver)
  }
}
