import Crypto
import GatewayProtocol
import System
import Transport

/// The least an operator needs: the handshake by shared token, and one request at a time.
actor Operator {
  nonisolated let loop: EventLoop
  nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
  private let socket: WebSocket
  private var count = 0

  init(url: String, token: String, loop: EventLoop) async throws {
    self.loop = loop
    guard let endpoint = Endpoint(url: url) else { throw BenchError("no such address: \(url)") }
    socket = try await WebSocket.connect(to: endpoint, options: ConnectOptions(), loop: loop)
    _ = try await socket.receive()  // connect.challenge, which only a device has to answer
    let scopes = ["operator.read", "operator.write", "operator.admin"]
    _ = try await request(
      "connect",
      [
        "minProtocol": 4, "maxProtocol": 4, "role": "operator", "scopes": .strings(scopes), "caps": [],
        "client": ["id": "gateway-client", "version": "0", "platform": "linux", "mode": "backend"],
        "auth": ["token": .string(token)],
      ])
  }

  func close() async { await socket.close() }

  /// Sends a request and gives its answer's payload.
  func request(_ method: String, _ params: JSON) async throws -> JSON {
    count += 1
    let id = String(count)
    return try await answer(to: Frame.request(Frame.Request(id: id, method: method, params: params)).encoded(), id: id)
  }

  /// The params of `node.invoke`.
  static func invoke(_ command: String, of node: String, _ params: JSON = [:]) -> JSON {
    [
      "nodeId": .string(node), "command": .string(command), "params": params, "timeoutMs": 15000,
      "idempotencyKey": .string(Random.uuid()),
    ]
  }

  /// Invokes and gives the bytes of the answer's frame, unread but for its beginning: reading 10 MB of JSON is not what is measured.
  func invokeForBytes(_ command: String, of node: String) async throws -> [UInt8] {
    count += 1
    let id = String(count)
    let frame = Frame.request(Frame.Request(id: id, method: "node.invoke", params: Self.invoke(command, of: node)))
    try await socket.send(frame.encoded())
    let mark = Array("\"id\":\"\(id)\"".utf8)
    while true {
      let bytes = try await socket.receive().bytes
      if bytes.prefix(200).contains(mark) || bytes.suffix(200).contains(mark) { return bytes }
    }
  }

  private func answer(to frame: [UInt8], id: String) async throws -> JSON {
    try await socket.send(frame)
    while true {
      guard case .response(let response) = try Frame(decoding: try await socket.receive().bytes), response.id == id
      else { continue }
      return try response.result.get() ?? .null
    }
  }
}

extension Collection where Element: Equatable {
  fileprivate func contains(_ other: [Element]) -> Bool {
    guard count >= other.count else { return false }
    var start = startIndex
    for _ in 0...(count - other.count) {
      if self[start...].starts(with: other) { return true }
      start = index(after: start)
    }
    return false
  }
}
