import Crypto
import DevGateway
import GatewayProtocol
import Glibc
import System
import Transport

/// A gateway on loopback and a paired `talknode run` beside it.
final class TestBed: Sendable {
  let folder: String
  let gateway: DevGateway
  private let gatewayLoop = EventLoop(name: "gateway")
  let loop = EventLoop(name: "operator")
  private let program: String
  private let node = Lock<Child?>(nil)

  init(
    _ options: Options, allow: [String], _ configure: (inout DevGateway.Options) -> Void = { _ in }
  ) async throws {
    folder = try Files.makeTemporaryFolder("talknode-bench")
    program = options.program
    var settings = DevGateway.Options()
    settings.allow = allow
    configure(&settings)
    gateway = DevGateway(options: settings, loop: gatewayLoop)
    try await gateway.start()
    try Files.writeAtomically(Array(gateway.token.utf8), to: folder + "/token")
  }

  /// Ends the node and the gateway and removes the folder.
  func close() async {
    node.withLock { $0 = nil }
    await gateway.stop()
    gatewayLoop.stop()
    loop.stop()
    try? Files.removeTree(folder)
  }

  var state: String { folder + "/node" }
  var process: pid_t { node.withLock { $0?.id ?? 0 } }

  /// Arguments of `talknode run` for this gateway; what was paired before is found in the state folder.
  func runArguments() async -> [String] {
    await ["run", "--state", state, "--gateway", gateway.url, "--token-file", folder + "/token"]
  }

  /// Starts the node and grants what it asks for until `command` may be called and nothing is pending. Gives its id.
  func startNode(awaiting command: String?, settings: String? = nil) async throws -> String {
    var arguments = await runArguments()
    if let settings {
      try Files.writeAtomically(Array((settings + "\n").utf8), to: folder + "/settings.toml")
      arguments += ["--config", folder + "/settings.toml"]
    }
    let child = try Child(program, arguments)
    node.withLock { $0 = child }
    return try await approve(awaiting: command)
  }

  func endNode() { node.withLock { $0 = nil } }

  /// Waits until a connected node may be called with `command`.
  func awaitNode(_ command: String, within limit: Duration) async throws -> String {
    let end = Monotonic.now() + limit
    while Monotonic.now() < end {
      let nodes = await gateway.nodes()
      if let node = nodes.first(where: { $0.isConnected && $0.surface.commands.contains(command) }) {
        return node.nodeID
      }
      try await Task.sleep(for: .milliseconds(2))
    }
    throw BenchError("the node did not come back within \(limit)")
  }

  /// Grants what is asked for.
  func approve(awaiting command: String?) async throws -> String {
    let limit = Monotonic.now() + .seconds(30)
    while Monotonic.now() < limit {
      for request in await gateway.pendingDevices() { try await gateway.approveDevice(request.requestID) }
      for request in await gateway.pendingSurfaces() { try await gateway.approveSurface(request.requestID) }
      let roles = await gateway.sessions().filter { $0.deviceID != nil }.map(\.role)
      if let node = await gateway.nodes().first(where: { node in
        node.isConnected && command.map { node.surface.commands.contains($0) } ?? true
      }),
        Set(roles).count == 2
      {
        return node.nodeID
      }
      try await Task.sleep(for: .milliseconds(50))
    }
    throw BenchError("the node was not connected and approved within 30 s")
  }

  /// An operator on a socket of its own.
  func makeOperator() async throws -> Operator {
    try await Operator(url: await gateway.url, token: gateway.token, loop: loop)
  }
}
