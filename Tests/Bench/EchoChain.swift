import GatewayProtocol
import Glibc
import System
import Transport

/// Two bare WebSockets in a row: this process → a relay in it → an echo in another process, and back.
final class EchoChain: Sendable {
  private let echoProcess: Child
  private let relay: WebSocketServer
  private let relayLoop: EventLoop
  private let socket: WebSocket

  init(loop: EventLoop) async throws {
    echoProcess = try Child(CommandLine.arguments[0], [Part.echo.rawValue], readsOutput: true)
    guard let port = echoProcess.readLine().flatMap({ UInt16($0) }) else { throw BenchError("the echo did not start") }
    let relayLoop = EventLoop(name: "relay")
    self.relayLoop = relayLoop
    relay = try WebSocketServer(loop: relayLoop, maxMessage: ProtocolLimits.payload) { down in
      let there = Endpoint(isTLS: false, host: "127.0.0.1", port: port)
      guard let up = try? await WebSocket.connect(to: there, options: ConnectOptions(), loop: relayLoop) else { return }
      while let message = try? await down.receive() {
        guard (try? await up.send(message.bytes)) != nil, let answer = try? await up.receive() else { break }
        guard (try? await down.send(answer.bytes)) != nil else { break }
      }
      await up.close()
    }
    await relay.start()
    let near = Endpoint(isTLS: false, host: "127.0.0.1", port: relay.port)
    socket = try await WebSocket.connect(to: near, options: ConnectOptions(), loop: loop)
  }

  /// There and back.
  func echo(_ bytes: [UInt8]) async throws {
    try await socket.send(bytes)
    _ = try await socket.receive()
  }

  func close() async {
    await socket.close()
    await relay.stop()
    relayLoop.stop()
    echoProcess.kill()
  }
}

/// What this program is when it stands at the other end of a measurement.
enum Part: String {
  case echo = "as-echo"
  case blobNode = "as-blob-node"
  case recogniser = "as-recogniser"
  case health = "as-health-reader"

  /// Until it is killed.
  func play(_ arguments: [String]) async {
    do {
      switch self {
      case .echo: try await Self.echo()
      case .recogniser: InstantRecogniser.run()
      case .health: try HealthProcess.play(arguments)
      case .blobNode: try await BlobNode.run(url: arguments[0], token: arguments[1], state: arguments[2])
      }
    } catch {
      Bench.note("\(rawValue): \(error)")
      exit(1)
    }
  }

  private static func echo() async throws {
    let loop = EventLoop(name: "echo")
    let server = try WebSocketServer(loop: loop, maxMessage: ProtocolLimits.payload) { socket in
      while let message = try? await socket.receive() {
        guard (try? await socket.send(message.bytes)) != nil else { return }
      }
    }
    await server.start()
    try Files.write(Array("\(server.port)\n".utf8), to: STDOUT_FILENO, named: "stdout")
    while true { try await Task.sleep(for: .seconds(3600)) }
  }
}
