import CSystemd

/// Which signals are meant: those for which every given part is equal (D-Bus specification, "Match Rules").
public struct DBusMatch: Sendable, Equatable {
  public var sender: String?
  public var path: String?
  public var interface: String?
  public var member: String?
  /// The first argument, when it is a string.
  public var firstArgument: String?

  public init(
    sender: String? = nil, path: String? = nil, interface: String? = nil, member: String? = nil,
    firstArgument: String? = nil
  ) {
    self.sender = sender
    self.path = path
    self.interface = interface
    self.member = member
    self.firstArgument = firstArgument
  }

  /// nil when a part holds an apostrophe, which no name can, and for which sd-bus and the bus have different escapes.
  var rule: String? {
    var rule = "type='signal'"
    for (key, value) in [
      ("sender", sender), ("path", path), ("interface", interface), ("member", member), ("arg0", firstArgument),
    ] {
      guard let value else { continue }
      if value.contains("'") { return nil }
      rule += ",\(key)='\(value)'"
    }
    return rule
  }
}

/// A signal that was received.
public struct DBusSignal: Sendable, Equatable {
  public let sender: String?
  public let path: String
  public let interface: String
  public let member: String
  public let arguments: [DBusValue]
}

extension Bus {
  struct Subscription {
    let way: Way
    var slot: OpaquePointer?
    let stream: AsyncStream<DBusSignal>.Continuation
    var installed: CheckedContinuation<DBusError?, Never>?
    var timer: EventLoop.Token?
  }

  /// The signals that match, from now on: returns when the bus has confirmed the rule, so that nothing sent later is missed. The newest
  /// 256 are kept for a reader that is slow. The stream ends with the connection; ending the stream removes the rule.
  public func signals(_ match: DBusMatch, timeout: Duration = .seconds(5)) async throws(DBusError) -> AsyncStream<
    DBusSignal
  > {
    guard let handle else { throw .disconnected }
    guard let rule = match.rule else { throw .malformed }
    lastID += 1
    let id = lastID
    let way = Way(self, id)
    let (stream, continuation) = AsyncStream.makeStream(of: DBusSignal.self, bufferingPolicy: .bufferingNewest(256))
    var slot: OpaquePointer?
    // Not sd_bus_add_match, which waits for the bus's answer on this very thread.
    let code = systemd.sd_bus_add_match_async(handle, &slot, rule, Self.onSignal, Self.onMatchInstalled, way.pointer)
    if code < 0 { throw DBusError(code: code, "subscribe") }
    let failure = await withCheckedContinuation { installed in
      let timer = loop.after(timeout) { [weak self] in
        self?.assumeIsolated { $0.confirm(id, .timedOut("AddMatch", after: timeout)) }
      }
      subscriptions[id] = Subscription(way: way, slot: slot, stream: continuation, installed: installed, timer: timer)
      process()
    }
    if let failure {
      unsubscribe(id)
      throw failure
    }
    continuation.onTermination = { [weak self] _ in Task { await self?.unsubscribe(id) } }
    return stream
  }

  /// The unique name that owns `name`; nil when nobody does.
  public func owner(of name: String, timeout: Duration = .seconds(5)) async throws(DBusError) -> String? {
    do throws(DBusError) {
      return try await call(
        "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "GetNameOwner", [.string(name)],
        timeout: timeout
      ).first?.text
    } catch {
      if error.isServiceMissing { return nil }
      throw error
    }
  }

  /// Who owns `name`, whenever that changes from now on; nil for nobody.
  public func owners(of name: String) async throws(DBusError) -> AsyncStream<String?> {
    let changes = try await signals(
      DBusMatch(
        sender: "org.freedesktop.DBus", interface: "org.freedesktop.DBus", member: "NameOwnerChanged",
        firstArgument: name))
    let (stream, continuation) = AsyncStream.makeStream(of: String?.self, bufferingPolicy: .bufferingNewest(16))
    let reader = Task {
      for await change in changes where change.arguments.count == 3 {
        let owner = change.arguments[2].text ?? ""
        continuation.yield(owner.isEmpty ? nil : owner)
      }
      continuation.finish()
    }
    continuation.onTermination = { _ in reader.cancel() }
    return stream
  }

  private static let onSignal: sd_bus_message_handler_t = { message, way, _ in
    guard let way = Way.from(way), let message else { return 0 }
    let received = DBusMessage(pointer: message)
    // A signal that can't be read is dropped: there is nobody to tell.
    guard let path = received.path, let interface = received.interface, let member = received.member,
      let arguments = try? received.arguments()
    else { return 0 }
    let signal = DBusSignal(
      sender: received.sender, path: path, interface: interface, member: member, arguments: arguments)
    let id = way.id
    way.bus.assumeIsolated { _ = $0.subscriptions[id]?.stream.yield(signal) }
    return 0
  }

  private static let onMatchInstalled: sd_bus_message_handler_t = { message, way, _ in
    guard let way = Way.from(way), let message else { return 0 }
    let id = way.id
    let reply = DBusMessage(pointer: message)
    let failure = reply.isError ? reply.error : nil
    way.bus.assumeIsolated { $0.confirm(id, failure) }
    return 1
  }

  private func confirm(_ id: UInt64, _ failure: DBusError?) {
    guard let installed = subscriptions[id]?.installed else { return }
    if let timer = subscriptions[id]?.timer { loop.cancel(timer) }
    subscriptions[id]?.installed = nil
    subscriptions[id]?.timer = nil
    installed.resume(returning: failure)
  }

  private func unsubscribe(_ id: UInt64) {
    guard let subscription = subscriptions.removeValue(forKey: id) else { return }
    _ = systemd.sd_bus_slot_unref(subscription.slot)
    subscription.stream.finish()
    process()
  }

  func endSubscriptions() {
    for id in subscriptions.keys.sorted() {
      confirm(id, .disconnected)
      guard let subscription = subscriptions.removeValue(forKey: id) else { continue }
      _ = systemd.sd_bus_slot_unref(subscription.slot)
      subscription.stream.finish()
    }
  }
}
