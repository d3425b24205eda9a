import System

/// Asks device nodes what they are, one after the other on a thread that may hang: a driver that does takes no other camera along.
///
/// Who asks while the same nodes are being asked gets the same answers. A node that has not answered in good time is remembered as stuck until
/// it does, so that it costs one thread, however often cameras are looked for.
final class NodeProbes: Sendable {
  enum Answer: Sendable, Equatable {
    case camera(name: String, driver: String)
    case noCamera
    case needsLibcamera
    case notPermitted
    case stuck
  }

  private struct State {
    var stuck: Set<String> = []
    /// The nodes that are being asked, and their answers.
    var asking: (nodes: [String], answers: Task<[String: Answer], Never>)?
  }
  private let state = Lock(State())
  private let limit: Duration
  private let look: @Sendable (String) -> Answer

  /// `limit`: how long a node may take; some drivers think for a second when they are opened. `look` asks one, and may block.
  init(limit: Duration = .seconds(5), look: @escaping @Sendable (String) -> Answer) {
    self.limit = limit
    self.look = look
  }

  /// What nodes are; `stuck` after the limit, and at once for one that is known to be.
  func ask(_ nodes: [String]) async -> [String: Answer] {
    let answers = state.withLock { state -> Task<[String: Answer], Never> in
      if let asking = state.asking, asking.nodes == nodes { return asking.answers }
      let answers = Task { await self.walk(nodes) }
      state.asking = (nodes, answers)
      return answers
    }
    let all = await answers.value
    state.withLock { if $0.asking?.answers == answers { $0.asking = nil } }
    return all
  }

  /// As many walks as there are nodes that hang, and one more.
  private func walk(_ nodes: [String]) async -> [String: Answer] {
    var answers: [String: Answer] = [:]
    while true {
      let stuck = state.withLock { $0.stuck }
      for node in nodes where stuck.contains(node) && answers[node] == nil { answers[node] = .stuck }
      let left = nodes.filter { answers[$0] == nil }
      if left.isEmpty { return answers }
      let walk = Walk(left, look) { [self] node in state.withLock { _ = $0.stuck.remove(node) } }
      let hanging = await walk.hanging(after: limit)
      answers.merge(walk.answers) { $1 }
      if let hanging {
        state.withLock { _ = $0.stuck.insert(hanging) }
        // It may have answered just now, before it was one of these.
        if walk.answers[hanging] != nil { state.withLock { _ = $0.stuck.remove(hanging) } }
      }
      // Without a thread nobody is asked.
      if hanging == nil { for node in left where answers[node] == nil { answers[node] = .stuck } }
    }
  }
}

/// One thread that asks nodes in turn, until it hangs.
private final class Walk: Sendable {
  private struct State {
    var answers: [String: NodeProbes.Answer] = [:]
    var current: String
    var since = Monotonic.now()
    /// Nobody waits for it any more.
    var isAbandoned = false
  }
  private let state: Lock<State>
  private let end: Task<Void, Never>

  /// `late` is told of the node that it was abandoned for, once that has answered.
  init(
    _ nodes: [String], _ look: @escaping @Sendable (String) -> NodeProbes.Answer,
    late: @escaping @Sendable (String) -> Void
  ) {
    let state = Lock(State(current: nodes[0]))
    self.state = state
    end = Task {
      await withCheckedContinuation { continuation in
        let isStarted = startThread(name: "camera list") {
          for node in nodes {
            state.withLock {
              $0.current = node
              $0.since = Monotonic.now()
            }
            let answer = look(node)
            let isAbandoned = state.withLock { state in
              state.answers[node] = answer
              return state.isAbandoned
            }
            if isAbandoned {
              late(node)
              break
            }
          }
          continuation.resume()
        }
        if !isStarted { continuation.resume() }
      }
    }
  }

  var answers: [String: NodeProbes.Answer] { state.withLock { $0.answers } }

  /// Waits for the end; the node that takes longer than `limit`, with which the walk is left alone.
  func hanging(after limit: Duration) async -> String? {
    while true {
      let wait = max(state.withLock { $0.since } + limit - Monotonic.now(), .zero)
      if (try? await withDeadline(wait, { [end] in await end.value })) != nil { return nil }
      let hanging = state.withLock { state -> String? in
        guard Monotonic.now() >= state.since + limit, state.answers[state.current] == nil
        else { return nil }
        state.isAbandoned = true
        return state.current
      }
      if let hanging { return hanging }
    }
  }
}

extension NodeProbes.Answer {
  /// Asks a node. Blocks as long as its driver likes.
  init(asking node: String, _ places: CameraPlaces) {
    let device: V4L2Device
    do throws(CameraError) { device = try V4L2Device(node, places: places) } catch {
      self = error.code == .notPermitted ? .notPermitted : .noCamera
      return
    }
    guard let facts = device.facts() else {
      self = .noCamera
      return
    }
    switch facts.verdict {
    case .noCamera: self = .noCamera
    case .needsLibcamera: self = .needsLibcamera
    case .camera:
      // A node that offers no format has nothing to show: the second node of a device, a receiver without a signal.
      self =
        device.formats().isEmpty
        ? .noCamera : .camera(name: facts.card.isEmpty ? node : facts.card, driver: facts.driver)
    }
  }
}
