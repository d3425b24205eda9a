import GatewayClient
import GatewayProtocol
import Speech
import System

/// What a gateway says about talking: whether it transcribes (`talk.catalog`), and how long a silence ends an utterance (`talk.config`).
///
/// Asked for at the first key of a gateway; after that the known answer is given at once and, when it is old, asked for again in the
/// background, so that no later key waits for the gateway. One that gave no answer is asked in the background for a while.
actor GatewayFacts {
  struct Facts: Sendable, Equatable {
    var transcription: SpeechAvailability
    /// Nil when it says nothing that can be used: the default holds then.
    var silenceMs: Int?
  }

  static let life: Duration = .seconds(60)
  /// Sound waits for the answer, a person does not; the transcriber starts this much later at worst.
  static let patience: Duration = .seconds(3)
  /// How long a gateway that gave no answer keeps no key waiting.
  static let impatience: Duration = .seconds(10)

  private struct Known {
    let gateway: String
    let facts: Facts
    let at: Duration
  }
  private var known: Known?
  /// The gateway that gave no answer, and when.
  private var silent: (gateway: String, at: Duration)?
  private var asking: (gateway: String, task: Task<Facts?, Never>)?

  /// Nil when the gateway can't be asked. `isPatient` waits for a gateway that has just given no answer, too.
  func facts(of link: GatewayLink, isPatient: Bool = false) async -> Facts? {
    guard await link.status().operator.isConnected else { return nil }
    guard let known, known.gateway == link.gateway.id else {
      let asking = ask(link)
      if !isPatient, let silent, silent.gateway == link.gateway.id, Monotonic.now() - silent.at < Self.impatience {
        return nil
      }
      return await asking.value
    }
    if Monotonic.now() - known.at >= Self.life { _ = ask(link) }
    return known.facts
  }

  private func ask(_ link: GatewayLink) -> Task<Facts?, Never> {
    if let asking, asking.gateway == link.gateway.id { return asking.task }
    let task = Task { await self.answer(of: link) }
    asking = (link.gateway.id, task)
    return task
  }

  private func answer(of link: GatewayLink) async -> Facts? {
    async let config = try? link.request("talk.config", [:], as: .operator, timeout: Self.patience)
    let transcription: SpeechAvailability?
    do throws(LinkError) {
      let catalog = try await link.request("talk.catalog", [:], as: .operator, timeout: Self.patience)
      transcription = GatewayTranscriber.availability(in: catalog)
    } catch {
      // An old gateway has no such method: that is an answer. A lost one has given none.
      transcription = error.code == .refused ? .absent(reason: error.summary, remedy: error.remedy) : nil
    }
    let silence = await config?["config"]?["talk"]?["silenceTimeoutMs"]?.int
    if asking?.gateway == link.gateway.id { asking = nil }
    guard let transcription else {
      silent = (link.gateway.id, Monotonic.now())
      return nil
    }
    silent = nil
    let facts = Facts(transcription: transcription, silenceMs: silence.flatMap { $0 > 0 ? Int(exactly: $0) : nil })
    known = Known(gateway: link.gateway.id, facts: facts, at: Monotonic.now())
    return facts
  }
}
