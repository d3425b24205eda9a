import CPulse
import System

/// Sound through a PulseAudio server, or PipeWire's stand-in for one, by libpulse's asynchronous interface.
public final class PulseBackend: AudioBackend {
  public let name = "pulse"
  private let server: String?
  private let connection = Lock<PulseConnection?>(nil)

  /// How long a server may take to answer before it counts as stuck.
  private static let patience: Duration = .seconds(3)

  /// `server` is an address as PulseAudio writes it; nil is libpulse's own rule.
  public init(server: String? = nil) { self.server = server }

  public func probe() async throws(AudioError) -> String {
    let server = try await patiently { connection in try await connection.server() }
    return "\(server.name) \(server.version) at \(server.address)"
  }

  public func inputs() async throws(AudioError) -> [AudioDevice] {
    try await patiently { connection in
      let server = try await connection.server()
      return try await connection.sources(nil).map { $0.device(default: server.defaultSource) }
    }
  }

  public func outputs() async throws(AudioError) -> [AudioDevice] {
    try await patiently { connection in
      let server = try await connection.server()
      return try await connection.sinks(nil).map { $0.device(default: server.defaultSink) }
    }
  }

  public func openInput(
    _ device: String?, deliver: @escaping @Sendable (InputEvent) -> Void
  ) async throws(AudioError) -> any InputStream {
    try await patiently { connection in
      let source = try await Self.find(device, .input, connection)
      let input = PulseInput(connection, source, format: source.format, deliver: deliver)
      try await input.open()
      return input
    }
  }

  public func openOutput(
    _ device: String?, report: @escaping @Sendable (OutputEvent) -> Void
  ) async throws(AudioError) -> any OutputStream {
    try await patiently { connection in
      let sink = try await Self.find(device, .output, connection)
      let output = PulseOutput(connection, sink, format: sink.format, report: report)
      try await output.open()
      return output
    }
  }

  public func close() async {
    let current = connection.withLock { connection in
      defer { connection = nil }
      return connection
    }
    await current?.reset(AudioError(.stopped, "The connection to the sound server was closed."))
  }

  /// Connects when needed and asks, all within the limit; a server that does not answer in time is left.
  private func patiently<Value: Sendable>(
    _ body: @escaping @concurrent @Sendable (PulseConnection) async throws -> Value
  ) async throws(AudioError) -> Value {
    let current = try current()
    let stuck = AudioError(
      .deviceStuck, "The sound server does not answer.", remedy: "systemctl --user restart pipewire-pulse pulseaudio")
    do throws(AudioError) {
      return try await within(Self.patience, orThrow: stuck) {
        try await current.connect()
        return try await body(current)
      }
    } catch {
      if error == stuck {
        // Should libpulse itself be stuck, its thread is left behind with the connection.
        connection.withLock { if $0 === current { $0 = nil } }
        Task { await current.reset(stuck) }
      }
      throw error
    }
  }

  private func current() throws(AudioError) -> PulseConnection {
    let result = connection.withLock { connection -> Result<PulseConnection, AudioError> in
      if let connection { return .success(connection) }
      return Result { () throws(AudioError) in
        let new = try PulseConnection(library: PulseLibrary.shared.get(), address: server)
        connection = new
        return new
      }
    }
    return try result.get()
  }

  private static func find(
    _ wanted: String?, _ direction: AudioDevice.Direction, _ connection: PulseConnection
  ) async throws(AudioError) -> PulseConnection.Device {
    let kind = direction.noun
    func list(_ name: String?) async throws(AudioError) -> [PulseConnection.Device] {
      direction == .input ? try await connection.sources(name) : try await connection.sinks(name)
    }
    var systemDefault: String?
    var name = wanted
    if name == nil {
      let server = try await connection.server()
      systemDefault = direction == .input ? server.defaultSource : server.defaultSink
      name = systemDefault
    }
    if let name, let device = try await list(name).first, wanted != nil || !device.device.isMonitor { return device }
    let all = try await list(nil)
    let devices = all.map { $0.device(default: systemDefault) }
    if let device = devices.chosen(wanted, direction), let found = all.first(where: { $0.device.name == device.name }) {
      return found
    }
    let choice = devices.filter { !$0.isMonitor }.map(\.name).joined(separator: ", ")
    if let wanted {
      throw AudioError(
        .deviceNotFound, "There is no \(kind) \(wanted).",
        remedy: choice.isEmpty ? "The sound server has none at all." : "There are: \(choice)")
    }
    throw AudioError(
      .deviceNotFound, "The sound server has no \(kind)\(choice.isEmpty ? "" : " set as its default").",
      remedy: choice.isEmpty ? "Plug one in; talknode audio list shows what is there." : "Choose one of: \(choice)")
  }
}

extension PulseConnection.Device {
  fileprivate func device(default name: String?) -> AudioDevice {
    var device = device
    device.isDefault = device.name == name
    return device
  }

  /// A device always has a format at a sound server.
  fileprivate var format: AudioFormat { device.format ?? AudioFormat(.s16le, rate: 48_000, channels: 2) }
}
