import GatewayProtocol
import NodeKit
import System

/// What the control socket asks, answered by the node.
extension Node: ControlHandler {
  func answer(_ request: ControlRequest) async throws(Failure) -> [UInt8] {
    switch request {
    case .status, .follow, .watchTalk: return status().json.encoded()
    case .talk(let request): return try await talk(request).encoded()
    case .invoke(let command, let params, let timeoutMs):
      switch await invoke(command, params: params, timeoutMs: timeoutMs) {
      case .success(let payload): return payload ?? Array("null".utf8)
      case .failure(let error): throw Failure(command: command, error: error)
      }
    case .use(let gateway):
      try await use(gateway)
      return status().json.encoded()
    case .forget(let gateway):
      try await forget(gateway)
      return status().json.encoded()
    case .turn(let capability, let on): return try await turn(capability, on: on).json.encoded()
    case .availability:
      let states = await ModuleState.all(router.modules)
      return JSON.array(states.map(\.json)).encoded()
    }
  }

  func follow() -> AsyncStream<JSON> {
    let statuses = statuses()
    let (stream, continuation) = AsyncStream.makeStream(of: JSON.self, bufferingPolicy: .bufferingNewest(1))
    let pump = Task {
      for await status in statuses { continuation.yield(status.json) }
      continuation.finish()
    }
    continuation.onTermination = { _ in pump.cancel() }
    return stream
  }
}

/// What one module could do now.
struct ModuleState: Sendable, Equatable {
  let capability: String
  let availability: Availability

  /// Asks all modules at once; one that takes over 5 s is itself a finding.
  static func all(_ modules: [any CapabilityModule]) async -> [ModuleState] {
    await withTaskGroup(of: (Int, Availability).self) { group in
      for (index, module) in modules.enumerated() {
        group.addTask {
          let answer = try? await withDeadline(.seconds(5)) { await module.availability() }
          return (index, answer ?? .absent(reason: "It did not answer within 5 s.", remedy: nil))
        }
      }
      var found: [Int: Availability] = [:]
      for await (index, availability) in group { found[index] = availability }
      return modules.enumerated().map { index, module in
        ModuleState(capability: module.capability.rawValue, availability: found[index]!)
      }
    }
  }

  var json: JSON {
    switch availability {
    case .ready: ["capability": .string(capability), "ready": true]
    case .absent(let reason, let remedy):
      .object(present: [
        "capability": .string(capability), "ready": false, "reason": .string(reason), "remedy": remedy.map(JSON.string),
      ])
    }
  }

  init?(json: JSON) {
    guard let capability = json["capability"]?.string, let isReady = json["ready"]?.bool else { return nil }
    self.init(
      capability: capability,
      availability: isReady
        ? .ready : .absent(reason: json["reason"]?.string ?? "It did not say why.", remedy: json["remedy"]?.string))
  }

  init(capability: String, availability: Availability) {
    self.capability = capability
    self.availability = availability
  }
}
