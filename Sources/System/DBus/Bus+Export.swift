import CSystemd

/// A method call that a peer has made.
public struct DBusCall: Sendable, Equatable {
  public let sender: String?
  public let path: String
  public let interface: String?
  public let member: String
  public let arguments: [DBusValue]
}

extension Bus {
  /// Answers a peer's call with the reply's arguments. Runs on the bus's loop.
  public typealias Handler = @Sendable (DBusCall) async throws(DBusError) -> [DBusValue]

  struct Export {
    let way: Way
    var slot: OpaquePointer?
    let handler: Handler
  }

  /// Peers' calls that are being answered at once; more are refused.
  private static let answeringLimit = 256

  /// Owns `name` on the bus. Throws `NameExists` when somebody else does and will not give it up.
  public func requestName(_ name: String, replacing: Bool = false) async throws(DBusError) {
    let flags: UInt32 = (replacing ? 2 : 0) | 4  // REPLACE_EXISTING, DO_NOT_QUEUE
    let reply = try await call(
      "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "RequestName",
      [.string(name), .uint32(flags)])
    // 1 = primary owner, 4 = already owner.
    guard let code = reply.first?.int, code == 1 || code == 4 else {
      throw DBusError("System.Error.EEXIST", "\(name) is owned by somebody else")
    }
  }

  /// Gives up `name`.
  public func releaseName(_ name: String) async throws(DBusError) {
    _ = try await call(
      "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "ReleaseName", [.string(name)])
  }

  /// This connection's unique name, for example `:1.42`.
  public func uniqueName() async throws(DBusError) -> String {
    // Any answer means that the bus has greeted, and then the name is known.
    _ = try await call("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus.Peer", "Ping")
    var name: UnsafePointer<CChar>?
    guard let handle, systemd.sd_bus_get_unique_name(handle, &name) >= 0, let name else { throw .disconnected }
    return String(cString: name)
  }

  /// Answers calls to the object at `path`, and to all below it if `subtree`, until the connection ends or `unexport` is called with
  /// the token returned. `handler` gets every interface, `org.freedesktop.DBus.Properties` too.
  public func export(_ path: String, subtree: Bool = false, handler: @escaping Handler) throws(DBusError) -> UInt64 {
    guard let handle else { throw .disconnected }
    lastID += 1
    let id = lastID
    let way = Way(self, id)
    var slot: OpaquePointer?
    let code =
      subtree
      ? systemd.sd_bus_add_fallback(handle, &slot, path, Self.onCall, way.pointer)
      : systemd.sd_bus_add_object(handle, &slot, path, Self.onCall, way.pointer)
    if code < 0 { throw DBusError(code: code, "export \(path)") }
    exports[id] = Export(way: way, slot: slot, handler: handler)
    return id
  }

  /// Ends an export. Unknown tokens are ignored.
  public func unexport(_ token: UInt64) {
    if let export = exports.removeValue(forKey: token) { _ = systemd.sd_bus_slot_unref(export.slot) }
  }

  /// Sends a signal.
  public func emit(
    _ path: String, _ interface: String, _ member: String, _ arguments: [DBusValue] = [], to destination: String? = nil
  ) throws(DBusError) {
    guard let handle else { throw .disconnected }
    var pointer: OpaquePointer?
    var code = systemd.sd_bus_message_new_signal(handle, &pointer, path, interface, member)
    guard code >= 0, let pointer else { throw DBusError(code: code, "signal \(member)") }
    defer { _ = systemd.sd_bus_message_unref(pointer) }
    try DBusMessage(pointer: pointer).append(arguments)
    if let destination { code = systemd.sd_bus_message_set_destination(pointer, destination) }
    if code >= 0 { code = systemd.sd_bus_send(handle, pointer, nil) }
    if code < 0 { throw DBusError(code: code, "signal \(member)") }
    process()
  }

  private static let onCall: sd_bus_message_handler_t = { message, way, _ in
    guard let way = Way.from(way), let message else { return 0 }
    let id = way.id
    nonisolated(unsafe) let pointer = message  // Used here and now, on the loop; kept with a reference of its own.
    way.bus.assumeIsolated { $0.accept(pointer, by: id) }
    return 1
  }

  private func accept(_ pointer: OpaquePointer, by id: UInt64) {
    let message = DBusMessage(pointer: pointer)
    guard let export = exports[id], let path = message.path, let member = message.member else { return }
    let call: DBusCall
    do throws(DBusError) {
      if answering.count >= Self.answeringLimit { throw .tooMany }
      call = DBusCall(
        sender: message.sender, path: path, interface: message.interface, member: member,
        arguments: try message.arguments())
    } catch {
      return reply(to: pointer, .failure(error))
    }
    lastID += 1
    let number = lastID
    answering[number] = systemd.sd_bus_message_ref(pointer)
    Task {
      let result: Result<[DBusValue], DBusError>
      do throws(DBusError) { result = .success(try await export.handler(call)) } catch { result = .failure(error) }
      guard let pointer = answering.removeValue(forKey: number) else { return }
      reply(to: pointer, result)
      _ = systemd.sd_bus_message_unref(pointer)
      process()
    }
  }

  private func reply(to call: OpaquePointer, _ result: Result<[DBusValue], DBusError>) {
    guard let handle, DBusMessage(pointer: call).wantsReply else { return }
    var failure: DBusError
    switch result {
    case .success(let arguments):
      var answer: OpaquePointer?
      guard systemd.sd_bus_message_new_method_return(call, &answer) >= 0, let answer else { return }
      defer { _ = systemd.sd_bus_message_unref(answer) }
      do throws(DBusError) {
        try DBusMessage(pointer: answer).append(arguments)
        let code = systemd.sd_bus_send(handle, answer, nil)
        if code >= 0 { return }
        failure = DBusError(code: code, "reply")
      } catch {
        failure = error
      }
    case .failure(let error): failure = error
    }
    var error = sd_bus_error()
    // Negative by design: it returns the errno of the error it sets. An invalid name becomes a general failure there.
    _ = systemd.sd_bus_error_set(&error, failure.name, failure.message)
    _ = systemd.sd_bus_reply_method_error(call, &error)
    systemd.sd_bus_error_free(&error)
  }

  func endExports() {
    for export in exports.values { _ = systemd.sd_bus_slot_unref(export.slot) }
    exports = [:]
    for pointer in answering.values { _ = systemd.sd_bus_message_unref(pointer) }
    answering = [:]
  }
}

// MARK: Properties

extension Bus {
  /// One property of a peer's object.
  public func property(
    _ destination: String, _ path: String, _ interface: String, _ name: String, timeout: Duration = .seconds(5)
  ) async throws(DBusError) -> DBusValue {
    let reply = try await call(
      destination, path, "org.freedesktop.DBus.Properties", "Get", [.string(interface), .string(name)], timeout: timeout
    )
    guard let value = reply.first else { throw .malformed }
    return value.unwrapped
  }

  /// All properties of one interface of a peer's object.
  public func properties(
    _ destination: String, _ path: String, _ interface: String, timeout: Duration = .seconds(5)
  ) async throws(DBusError) -> [String: DBusValue] {
    let reply = try await call(
      destination, path, "org.freedesktop.DBus.Properties", "GetAll", [.string(interface)], timeout: timeout)
    guard let members = reply.first?.members else { throw .malformed }
    return members
  }
}
