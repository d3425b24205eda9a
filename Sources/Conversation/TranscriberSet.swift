import GatewayClient
import Speech
import System

/// The transcribers there are, and the rule by which one is taken: what the settings name and nothing else, or, with `auto`, the
/// gateway's where it offers one, then the command's, then pocketsphinx, each as a stand-by for the one before.
public actor TranscriberSet {
  /// One line of `doctor`: a transcriber, and whether it could be used now.
  public struct Finding: Sendable, Equatable {
    public let name: String
    public let availability: SpeechAvailability
  }

  private var choice: TalkOptions.TranscriberChoice
  private let command: CommandTranscriber?
  private let pocketsphinx: PocketsphinxTranscriber
  private let facts = GatewayFacts()

  public init(
    choice: TalkOptions.TranscriberChoice, command: CommandTranscriber?, pocketsphinx: PocketsphinxTranscriber
  ) {
    self.choice = choice
    self.command = command
    self.pocketsphinx = pocketsphinx
  }

  /// Takes another rule for the captures that begin from now on.
  public func choose(_ choice: TalkOptions.TranscriberChoice) { self.choice = choice }

  /// Who transcribes the next capture, in this order.
  public func inOrder(link: GatewayLink?) async -> [any Transcriber] {
    var all: [any Transcriber] = []
    if choice == .auto || choice == .gateway {
      // With others at hand a gateway that has just given no answer keeps nobody waiting again.
      switch await gatewayAvailability(link, isPatient: choice == .gateway) {
      case .ready: if let link { all.append(GatewayTranscriber(link: link)) }
      case .absent(let reason, let remedy):
        // Chosen by name, it is not quietly replaced: who talks is told why it can't be had.
        if choice == .gateway { all.append(AbsentTranscriber(name: "gateway", reason: reason, remedy: remedy)) }
      }
    }
    if choice == .auto || choice == .command, let command { all.append(command) }
    if choice == .auto || choice == .pocketsphinx { all.append(pocketsphinx) }
    return all
  }

  /// How long the gateway lets a silence be before an utterance is over; nil when it says nothing.
  func silenceMs(link: GatewayLink?) async -> Int? {
    guard let link else { return nil }
    return await facts.facts(of: link)?.silenceMs
  }

  /// Each transcriber that may be taken and whether it could be used now, in the order they would be.
  public func findings(link: GatewayLink?) async -> [Finding] {
    var findings: [Finding] = []
    if choice == .auto || choice == .gateway {
      let absent = SpeechAvailability.absent(
        reason: "No gateway is connected.", remedy: "Pair with one: talknode pair CODE")
      findings.append(
        Finding(
          name: "gateway", availability: await link.map { GatewayTranscriber(link: $0) }?.availability() ?? absent))
    }
    if choice == .auto || choice == .command {
      let absent = SpeechAvailability.absent(
        reason: "No command is set.", remedy: "Set [talk] command: share/talknode/recipes has ready ones for whisper.")
      findings.append(Finding(name: "command", availability: await command?.availability() ?? absent))
    }
    if choice == .auto || choice == .pocketsphinx {
      findings.append(Finding(name: "pocketsphinx", availability: await pocketsphinx.availability()))
    }
    return findings
  }

  public func stop() async {
    await command?.stop()
    await pocketsphinx.stop()
  }

  private func gatewayAvailability(_ link: GatewayLink?, isPatient: Bool) async -> SpeechAvailability {
    guard let link else {
      return .absent(reason: "No gateway is active.", remedy: "Pair with one: talknode pair CODE")
    }
    return await facts.facts(of: link, isPatient: isPatient)?.transcription
      ?? .absent(reason: "The gateway can't be asked for transcription now.", remedy: "talknode status")
  }
}
