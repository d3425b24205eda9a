import Glibc
import System
import TestSupport
import Testing

@testable import Transport

/// Waits until `condition` holds, for 20 s at most.
func eventually(
  _ what: Comment, sourceLocation: SourceLocation = #_sourceLocation, _ condition: () async throws -> Bool
) async throws {
  let end = Monotonic.now() + .seconds(20)
  while Monotonic.now() < end {
    if try await condition() { return }
    try await Task.sleep(for: .milliseconds(5))
  }
  Issue.record(what, sourceLocation: sourceLocation)
}

/// Runs what blocks on a thread of its own: the threads that tests run on are few and shared.
func blocking<Value: Sendable>(_ body: @escaping @Sendable () -> Value) async -> Value {
  await withCheckedContinuation { continuation in
    let isStarted = startThread(name: "test") { continuation.resume(returning: body()) }
    precondition(isStarted)
  }
}

/// A box for what a handler on another thread saw.
final class Seen<Value: Sendable>: Sendable {
  private let values = Lock<[Value]>([])
  func add(_ value: Value) { values.withLock { $0.append(value) } }
  var all: [Value] { values.withLock { $0 } }
}

/// One loop for most tests of this target: they share it as sockets do in the program.
let loop = EventLoop(name: "test loop")

/// A loop for one test that moves much data, ended with it.
final class OwnLoop: Sendable {
  let loop = EventLoop(name: "own loop")
  deinit { loop.stop() }
}

extension ConnectOptions {
  init(_ trust: Trust = .system, timeout: Duration = .seconds(15), proxy: Proxy? = nil) {
    self.init()
    self.trust = trust
    self.timeout = timeout
    self.proxy = proxy
  }
}

extension Endpoint {
  /// A port of this machine.
  static func local(_ port: UInt16, tls: Bool = false, host: String = "127.0.0.1", path: String = "/") -> Endpoint {
    Endpoint(isTLS: tls, host: host, port: port, path: path)
  }
}

/// A server that sends back what it gets until its client has left.
func echoServer(
  identity: ServerIdentity? = nil, host: String = "127.0.0.1", on loop: EventLoop = loop
) async throws -> WebSocketServer {
  let server = try WebSocketServer(host: host, identity: identity, loop: loop, maxMessage: 26_214_400) { socket in
    while let message = try? await socket.receive() {
      do { try await socket.send(message.bytes, text: message.isText) } catch { return }
    }
  }
  await server.start()
  return server
}

/// The closure that `body` throws.
func closure<Value>(_ body: () async throws(Closure) -> Value) async -> Closure? {
  do throws(Closure) {
    _ = try await body()
    return nil
  } catch { return error }
}
