import System

/// A message bus of a test's own: a real dbus-daemon, on a socket in a temporary folder, that knows no services but those the test
/// gives it.
public struct PrivateBus: Sendable {
  public let address: Bus.Address
  /// As it stands in DBUS_SESSION_BUS_ADDRESS.
  public let addressText: String
  public let loop: EventLoop
  private let daemon: Subprocess
  private let folder: TemporaryFolder

  /// Runs `body` with a bus. `services` are programs that the bus starts by itself, by name.
  public static func with<Value: Sendable>(
    services: [String: String] = [:], _ body: (PrivateBus) async throws -> Value
  ) async throws -> Value {
    let bus = try await PrivateBus(services)
    do {
      let value = try await body(bus)
      await bus.stop()
      return value
    } catch {
      await bus.stop()
      throw error
    }
  }

  private init(_ services: [String: String]) async throws {
    folder = TemporaryFolder()
    loop = EventLoop(name: "test bus")
    for (name, program) in services {
      try folder.write("services/\(name).service", "[D-BUS Service]\nName=\(name)\nExec=\(program)\n")
    }
    try folder.write(
      "bus.conf",
      """
      <!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-BUS Bus Configuration 1.0//EN"
       "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
      <busconfig>
        <type>session</type>
        <listen>unix:path=\(folder("bus"))</listen>
        <servicedir>\(folder("services"))</servicedir>
        <policy context="default">
          <allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/>
        </policy>
      </busconfig>
      """)
    daemon = try await Subprocess.start(
      .init("dbus-daemon", ["--config-file=" + folder("bus.conf"), "--nofork", "--print-address=1"]), loop: loop)
    guard let line = try await daemon.readLine() else {
      throw SystemError("start dbus-daemon: \(await daemon.errorOutput)", code: 2)
    }
    addressText = String(decoding: line, as: UTF8.self)
    address = .address(addressText)
  }

  /// Another connection to it.
  public func connect() async throws(DBusError) -> Bus { try await Bus.open(address, loop: loop) }

  /// Ends the daemon at once, as a crash does.
  public func kill() async { await daemon.signal(9) }

  private func stop() async {
    await daemon.end(grace: .milliseconds(500))
    loop.stop()
  }
}
