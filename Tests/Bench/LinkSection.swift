import GatewayProtocol
import Glibc
import System
import Transport

/// The node's link, seen from an operator: latency, throughput, and how soon it is back.
extension Section {
  static let link = Section(name: "link") { options in
    let bed = try await TestBed(options, allow: ["device.info", BlobNode.command])
    do {
      var figures = try await latency(options, bed)
      figures.append(try await recovery(options, bed))
      bed.endNode()
      figures.append(try await blob(options, bed))
      await bed.close()
      return figures
    } catch {
      await bed.close()
      throw error
    }
  }

  /// `node.invoke` goes operator → gateway → node and back; so does a message over two bare WebSockets in a row, with the gateway's
  /// place taken by a relay and the node's by an echo in another process.
  private static func latency(_ options: Options, _ bed: TestBed) async throws -> [Figure] {
    let node = try await bed.startNode(awaiting: "device.info")
    let client = try await bed.makeOperator()
    let bytes = try await client.invokeForBytes("device.info", of: node)
    let chain = try await EchoChain(loop: bed.loop)
    var invoke = Samples()
    var echo = Samples()
    let rounds = options.times(4000)
    // In turns, so that whatever else the machine does meets both alike.
    for round in 0..<(rounds / 50 + 1) {
      for _ in 0..<50 {
        let start = Monotonic.now()
        _ = try await client.invokeForBytes("device.info", of: node)
        if round > 0 { invoke.add((Monotonic.now() - start).milliseconds) }
      }
      for _ in 0..<50 {
        let start = Monotonic.now()
        try await chain.echo(bytes)
        if round > 0 { echo.add((Monotonic.now() - start).milliseconds) }
      }
    }
    await chain.close()
    await client.close()
    func figure(_ name: String, _ fraction: Double) -> [Figure] {
      let (value, bare) = (invoke.quantile(fraction), echo.quantile(fraction))
      return [
        Figure("`node.invoke device.info` \(name)", unit: "ms", value: value, comparison: ("two chained echoes", bare)),
        Figure(
          "… in echoes", unit: "×", value: value / bare, target: .atMost(2.5), note: "\(bytes.count) bytes each way"),
      ]
    }
    return figure("p50", 0.5) + figure("p99", 0.99)
  }

  /// From the moment a stopped gateway listens again to the first answer of an invoke, at the first back-off step.
  private static func recovery(_ options: Options, _ bed: TestBed) async throws -> Figure {
    var back = Samples()
    for _ in 0..<options.times(20) {
      // A node that has just started is at the first step; one that lost a session of under 30 s before would be further on.
      bed.endNode()
      while await bed.gateway.nodes().contains(where: \.isConnected) { try await Task.sleep(for: .milliseconds(2)) }
      _ = try await bed.startNode(awaiting: "device.info")
      await bed.gateway.crash()
      try await Task.sleep(for: .milliseconds(200))
      try await bed.gateway.start()
      let start = Monotonic.now()
      let node = try await bed.awaitNode("device.info", within: .seconds(40))
      let client = try await bed.makeOperator()
      _ = try await client.request("node.invoke", Operator.invoke("device.info", of: node))
      back.add((Monotonic.now() - start).milliseconds / 1000)
      await client.close()
    }
    return Figure(
      "gateway back to invokable", unit: "s", value: back.median, target: .atMost(1.2),
      note: "worst \(Report.text(back.quantile(1), "s"))")
  }

  /// A node that answers with 10 MB, as a camera clip would be.
  private static func blob(_ options: Options, _ bed: TestBed) async throws -> Figure {
    let child = try Child(
      CommandLine.arguments[0],
      [Part.blobNode.rawValue, await bed.gateway.url, bed.gateway.token, bed.folder + "/blob"])
    defer { child.kill() }
    let node = try await bed.approve(awaiting: BlobNode.command)
    let client = try await bed.makeOperator()
    let chain = try await EchoChain(loop: bed.loop)
    var times = Samples()
    var echoes = Samples()
    for round in 0..<options.times(30) {
      let start = Monotonic.now()
      let bytes = try await client.invokeForBytes(BlobNode.command, of: node)
      let time = (Monotonic.now() - start).milliseconds / 1000
      if bytes.count < BlobNode.size { throw BenchError("only \(bytes.count) bytes came back") }
      let begin = Monotonic.now()
      try await chain.echo(bytes)
      if round == 0 { continue }  // buffers grow
      times.add(time)
      echoes.add((Monotonic.now() - begin).milliseconds / 1000)
    }
    await chain.close()
    await client.close()
    return Figure(
      "a 10 MB result", unit: "s", value: times.median, target: .atMost(0.5),
      comparison: ("two chained echoes, there and back", echoes.median),
      note: Report.text(Double(BlobNode.size) / 1e6 / times.median, "MB/s"))
  }
}
