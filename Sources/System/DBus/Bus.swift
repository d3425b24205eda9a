import CSystemd
import Glibc

/// A connection to a D-Bus message bus (sd-bus of libsystemd), pinned to an event loop.
///
/// Nothing here waits on the loop: every call is asynchronous, has a deadline, and can be cancelled. When the connection is lost
/// every call fails, every stream ends, and `isOpen` turns false; `SharedBus` opens a new one at the next use.
public actor Bus {
  public enum Address: Sendable, Equatable {
    /// The user's bus, as libsystemd finds it (DBUS_SESSION_BUS_ADDRESS, else XDG_RUNTIME_DIR).
    case session
    case system
    /// For example `unix:path=/run/dbus`.
    case address(String)
  }

  /// Gives a C callback its way back. Kept by the bus for as long as the slot can call.
  final class Way {
    unowned let bus: Bus
    let id: UInt64
    init(_ bus: Bus, _ id: UInt64) {
      self.bus = bus
      self.id = id
    }
    var pointer: UnsafeMutableRawPointer { Unmanaged.passUnretained(self).toOpaque() }
    static func from(_ pointer: UnsafeMutableRawPointer?) -> Way? {
      pointer.map { Unmanaged<Way>.fromOpaque($0).takeUnretainedValue() }
    }
  }

  private struct Call {
    let way: Way
    var slot: OpaquePointer?
    var timer: EventLoop.Token?
    let answer: CheckedContinuation<Result<[DBusValue], DBusError>, Never>
  }

  public nonisolated let loop: EventLoop
  public nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

  var handle: OpaquePointer?
  var lastID: UInt64 = 0
  private var calls: [UInt64: Call] = [:]
  private var watch: EventLoop.Token?
  private var timer: (token: EventLoop.Token, due: UInt64)?
  private var isProcessing = false
  // Of the extensions:
  var subscriptions: [UInt64: Subscription] = [:]
  var exports: [UInt64: Export] = [:]
  var answering: [UInt64: OpaquePointer] = [:]

  private static let callLimit = 256

  private init(loop: EventLoop) { self.loop = loop }

  isolated deinit { close() }

  /// Opens a connection. The bus's greeting is not waited for: a bus that is there but silent shows at the first call's deadline.
  public static func open(_ address: Address, loop: EventLoop) async throws(DBusError) -> Bus {
    let bus = Bus(loop: loop)
    try await bus.connect(address)
    return bus
  }

  /// Whether the connection has not been lost or closed.
  public var isOpen: Bool { handle != nil }

  /// Closes the connection. What waits for an answer fails.
  public func close() {
    guard let handle else { return }
    self.handle = nil
    if let watch { loop.unwatch(watch) }
    if let timer { loop.cancel(timer.token) }
    watch = nil
    timer = nil
    for id in calls.keys.sorted() { settle(id, .failure(.disconnected)) }
    endSubscriptions()
    endExports()
    _ = systemd.sd_bus_close_unref(handle)
  }

  /// Calls a method and returns its reply's arguments.
  ///
  /// Throws the peer's error; `NoReply` when there was no answer within `timeout`. A service that isn't running is started, if the bus
  /// knows how and `starts` is true.
  public func call(
    _ destination: String, _ path: String, _ interface: String, _ member: String, _ arguments: [DBusValue] = [],
    timeout: Duration = .seconds(5), starts: Bool = true
  ) async throws(DBusError) -> [DBusValue] {
    guard let handle else { throw .disconnected }
    if calls.count >= Self.callLimit { throw .tooMany }
    var pointer: OpaquePointer?
    let code = systemd.sd_bus_message_new_method_call(handle, &pointer, destination, path, interface, member)
    guard code >= 0, let pointer else { throw DBusError(code: code, "call \(interface).\(member)") }
    defer { _ = systemd.sd_bus_message_unref(pointer) }
    try DBusMessage(pointer: pointer).append(arguments)
    if !starts { _ = systemd.sd_bus_message_set_auto_start(pointer, 0) }
    lastID += 1
    let id = lastID
    let result = await withTaskCancellationHandler {
      await withCheckedContinuation { answer in send(pointer, id, "\(interface).\(member)", timeout, answer) }
    } onCancel: {
      Task { await self.settle(id, .failure(.cancelled)) }
    }
    return try result.get()
  }

  private func send(
    _ message: OpaquePointer, _ id: UInt64, _ member: String, _ timeout: Duration,
    _ answer: CheckedContinuation<Result<[DBusValue], DBusError>, Never>
  ) {
    if Task.isCancelled { return answer.resume(returning: .failure(.cancelled)) }
    let way = Way(self, id)
    var slot: OpaquePointer?
    // The deadline is ours: sd-bus starts its own only when the bus has greeted.
    let code = systemd.sd_bus_call_async(handle, &slot, message, Self.onReply, way.pointer, UInt64.max)
    if code < 0 { return answer.resume(returning: .failure(DBusError(code: code, "call \(member)"))) }
    let timer = loop.after(timeout) { [weak self] in
      self?.assumeIsolated { $0.settle(id, .failure(.timedOut(member, after: timeout))) }
    }
    calls[id] = Call(way: way, slot: slot, timer: timer, answer: answer)
    process()
  }

  private static let onReply: sd_bus_message_handler_t = { message, way, _ in
    guard let way = Way.from(way), let message else { return 0 }
    let bus = way.bus
    let id = way.id
    nonisolated(unsafe) let pointer = message  // Used here and now, on the loop.
    bus.assumeIsolated { bus in
      let message = DBusMessage(pointer: pointer)
      bus.settle(
        id, message.isError ? .failure(message.error) : Result { () throws(DBusError) in try message.arguments() })
    }
    return 0
  }

  /// Ends a call. Unknown ids, of calls that have ended, are ignored.
  private func settle(_ id: UInt64, _ result: Result<[DBusValue], DBusError>) {
    guard let call = calls.removeValue(forKey: id) else { return }
    if let timer = call.timer { loop.cancel(timer) }
    _ = systemd.sd_bus_slot_unref(call.slot)
    call.answer.resume(returning: result)
  }

  // MARK: The loop

  private func connect(_ address: Address) throws(DBusError) {
    try SystemdLibrary.require()
    var handle: OpaquePointer?
    var code: Int32
    switch address {
    case .session: code = systemd.sd_bus_open_user(&handle)
    case .system: code = systemd.sd_bus_open_system(&handle)
    case .address(let text):
      code = systemd.sd_bus_new(&handle)
      if code >= 0 { code = systemd.sd_bus_set_address(handle, text) }
      if code >= 0 { code = systemd.sd_bus_set_bus_client(handle, 1) }
      if code >= 0 { code = systemd.sd_bus_start(handle) }
    }
    guard code >= 0, let handle else {
      _ = systemd.sd_bus_unref(handle)
      throw DBusError(code: code, DBusError.opening)
    }
    self.handle = handle
    process()
  }

  /// Lets sd-bus read, write and call back, and waits for what it wants next.
  func process() {
    // Called back from sd-bus: the outer call goes on by itself.
    if isProcessing { return }
    isProcessing = true
    var turns = 0
    var code: Int32 = 1
    while let handle, code > 0, turns < 64 {
      code = systemd.sd_bus_process(handle, nil)
      turns += 1
    }
    isProcessing = false
    guard let handle else { return }
    if code < 0 || systemd.sd_bus_is_open(handle) <= 0 { return close() }
    wait(on: handle, hasMore: code > 0)
  }

  private func wait(on handle: OpaquePointer, hasMore: Bool) {
    let descriptor = systemd.sd_bus_get_fd(handle)
    let wanted = systemd.sd_bus_get_events(handle)
    if descriptor < 0 || wanted < 0 { return close() }
    let events = EventLoop.Events(rawValue: Int16(truncatingIfNeeded: wanted))
    if let watch {
      loop.rewatch(watch, events)
    } else {
      watch = loop.watch(descriptor, events) { [weak self] _ in self?.assumeIsolated { $0.process() } }
    }
    var due = UInt64.max
    if hasMore {
      due = 0  // The other actors of this loop have their turn first.
    } else {
      _ = systemd.sd_bus_get_timeout(handle, &due)
    }
    if timer?.due == due { return }
    if let timer { loop.cancel(timer.token) }
    timer = nil
    if due == UInt64.max { return }
    let now = Monotonic.nanoseconds() / 1000
    let delay = Duration.microseconds(due > now ? Int64(min(due - now, 3_600_000_000)) : 0)
    let token = loop.after(delay) { [weak self] in
      self?.assumeIsolated { bus in
        bus.timer = nil
        bus.process()
      }
    }
    timer = (token, due)
  }
}

/// One connection for all who use a bus, opened at the first use and again after it was lost.
public actor SharedBus {
  public nonisolated let address: Bus.Address
  public nonisolated let loop: EventLoop
  public nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
  private var current: Bus?

  public init(_ address: Bus.Address, loop: EventLoop) {
    self.address = address
    self.loop = loop
  }

  /// The open connection.
  public func bus() async throws(DBusError) -> Bus {
    if let current, await current.isOpen { return current }
    let opened = try await Bus.open(address, loop: loop)
    current = opened
    return opened
  }

  /// Closes the connection, if there is one.
  public func close() async {
    await current?.close()
    current = nil
  }
}
