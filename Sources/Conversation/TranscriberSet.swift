import GatewayClient
import Speech
import System

/// The transcribers there are, and the rule by which one is taken: what the settings name and nothing else, or, with `auto`, the
/// gateway's, then the command's, then pocketsphinx, each as a stand-by for the one before.
public actor TranscriberSet {
  /// One line of `doctor`: a transcriber, and whether it could be used now.
  public struct Finding: Sendable, Equatable {
    public let name: String
    public let availability: SpeechAvailability
  }

  private let choice: TalkOptions.TranscriberChoice
  private let command: CommandTranscriber?
  private let pocketsphinx: PocketsphinxTranscriber
  /// The catalog is asked for again when this old, or for another gateway.
  private static let catalogLife: Duration = .seconds(60)
  private var gatewayReady: (gateway: String, isReady: Bool, at: Duration)?

  public init(
    choice: TalkOptions.TranscriberChoice, command: CommandTranscriber?, pocketsphinx: PocketsphinxTranscriber
  ) {
    self.choice = choice
    self.command = command
    self.pocketsphinx = pocketsphinx
  }

  /// Who transcribes the next capture, in this order.
  public func inOrder(link: GatewayLink?) async -> [any Transcriber] {
    var all: [any Transcriber] = []
    if choice == .auto || choice == .gateway, let link {
      let transcriber = GatewayTranscriber(link: link)
      if choice == .gateway { return [transcriber] }
      if await isReady(transcriber, link) { all.append(transcriber) }
    }
    if choice == .auto || choice == .command, let command { all.append(command) }
    if choice == .auto || choice == .pocketsphinx { all.append(pocketsphinx) }
    return all
  }

  /// Each transcriber and whether it could be used now, in the order they would be taken.
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
        reason: "No command is set.", remedy: "Set [talk] command: config/recipes has ready ones for whisper.")
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

  private func isReady(_ transcriber: GatewayTranscriber, _ link: GatewayLink) async -> Bool {
    if await !link.status().operator.isConnected { return false }
    let now = Monotonic.now()
    if let known = gatewayReady, known.gateway == link.gateway.id, now - known.at < Self.catalogLife {
      return known.isReady
    }
    let isReady = await transcriber.availability().isReady
    gatewayReady = (link.gateway.id, isReady, now)
    return isReady
  }
}
