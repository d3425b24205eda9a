import GatewayProtocol
import System
import TestSupport
import Testing
import Transport

@testable import GatewayClient

@Suite("A channel to a gateway") struct ChannelTests {
  @Test(
    "a long event is parsed elsewhere, and still told in its place: behind those before it, before those after it and the end"
  )
  func order() async throws {
    let loop = EventLoop(name: "channel test")
    let filler = String(repeating: "x", count: 400_000)
    let server = try WebSocketServer(loop: loop, maxMessage: 1 << 20) { socket in
      _ = try? await socket.receive()
      for (name, payload) in [("a", "-"), ("long", filler), ("b", "-"), ("c", "-"), ("last", filler)] {
        let event = Frame.event(Frame.Event(name: name, payload: .string(payload)))
        try? await socket.send(event.encoded())
      }
      await socket.close(code: 1012, reason: "service restart")
    }
    await server.start()
    let endpoint = Endpoint(isTLS: false, host: "127.0.0.1", port: server.port)
    let socket = try await WebSocket.connect(to: endpoint, options: ConnectOptions(), loop: loop)
    let channel = GatewayChannel(socket: socket)
    let told = Lock<[String]>([])
    await channel.welcome(
      maxPayload: 1 << 20,
      listener: GatewayChannel.Listener(
        message: {}, event: { event in told.withLock { $0.append(event.name) } }, gap: { _ in }))
    let reader = Task { await channel.run() }
    try await socket.send([0x67])
    #expect(await reader.value.code == 1012)
    #expect(told.withLock { $0 } == ["a", "long", "b", "c", "last"])
    await server.stop()
    loop.stop()
  }
}
