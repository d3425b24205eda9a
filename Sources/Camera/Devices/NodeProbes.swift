import System

/// Asks device nodes what they are, each on a thread of its own: a driver that hangs takes no other camera along.
///
/// Who asks while a node is being asked gets the same answer. One that has not answered in good time is remembered as stuck until it does, so
/// that it costs one thread, however often cameras are looked for.
final class NodeProbes: Sendable {
  enum Answer: Sendable, Equatable {
    case camera(name: String, driver: String)
    case noCamera
    case needsLibcamera
    case notPermitted
    case stuck
  }

  private struct Question {
    var answer: Task<Answer, Never>
    var isStuck = false
  }
  private let open = Lock<[String: Question]>([:])
  private let limit: Duration
  private let look: @Sendable (String) -> Answer

  /// `limit`: how long a node may take; some drivers think for a second when they are opened. `look` asks one, and may block.
  init(limit: Duration = .seconds(5), look: @escaping @Sendable (String) -> Answer) {
    self.limit = limit
    self.look = look
  }

  /// What a node is; `stuck` after the limit, and at once for one that is known to be. For who is cancelled it is `stuck`, which says nothing.
  func ask(_ node: String) async -> Answer {
    let answer = open.withLock { open -> Task<Answer, Never>? in
      if let question = open[node] { return question.isStuck ? nil : question.answer }
      let answer = Task { await self.answer(node) }
      open[node] = Question(answer: answer)
      return answer
    }
    guard let answer else { return .stuck }
    do { return try await withDeadline(limit) { await answer.value } } catch {
      if error is DeadlineExceeded { open.withLock { $0[node]?.isStuck = true } }
      return .stuck
    }
  }

  @concurrent
  private func answer(_ node: String) async -> Answer {
    await withCheckedContinuation { continuation in
      let isStarted = startThread(name: "camera list") { [self] in
        let answer = look(node)
        open.withLock { $0[node] = nil }
        continuation.resume(returning: answer)
      }
      if isStarted { return }
      open.withLock { $0[node] = nil }
      continuation.resume(returning: .stuck)
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
