import Configuration
import DevGateway
import GatewayProtocol
import NodeKit

/// How the demo shows one capability: what has to be there, and what its commands are asked. A file each; the list is in `Modules`.
protocol Demonstration: Sendable {
  /// The modules' word.
  var capability: Capability { get }
  /// Makes ready what the steps need (a sample source, a daemon of the demo's own) before the node starts. What it starts it ends through
  /// `stage.atEnd`. Throws the reason why its steps are skipped.
  func prepare(_ stage: Stage) async throws(Skip)
  /// What each command is asked. A command that is not named here is asked without params.
  func steps(_ stage: Stage) -> [DemoStep]
}

extension Demonstration {
  func prepare(_ stage: Stage) async throws(Skip) {}
}

/// One call of one command.
struct DemoStep: Sendable {
  /// Where what it answers comes from.
  enum Source: String, Sendable { case machine, sample, live }

  let command: String
  let params: JSON
  let source: Source
  /// Looks at the payload and says in a few words what came back; throws what is wrong with it.
  let describe: @Sendable (JSON) async throws(Flaw) -> String
  /// What is made ready before the command runs.
  let before: @Sendable () async -> Void
  /// Refusals that say what this machine's device has not got: the step is skipped with them.
  let lacks: Set<String>
  /// What happens at this machine while the command runs: somebody speaks, something moves.
  let meanwhile: @Sendable () async -> Void

  init(
    _ command: String, params: JSON = [:], source: Source = .machine, lacks: Set<String> = [],
    describe: @escaping @Sendable (JSON) async throws(Flaw) -> String = { payload in DemoStep.short(payload) },
    before: @escaping @Sendable () async -> Void = {}, meanwhile: @escaping @Sendable () async -> Void = {}
  ) {
    self.command = command
    self.params = params
    self.source = source
    self.lacks = lacks
    self.describe = describe
    self.before = before
    self.meanwhile = meanwhile
  }

  /// The answer is there, and wrong.
  struct Flaw: Error, Sendable {
    let sentence: String
  }

  /// JSON text that fits on a line.
  static func short(_ json: JSON) -> String {
    let text = json.text
    return text.count <= 100 ? text : text.prefix(100) + "…"
  }
}

/// Why something can't be shown here.
struct Skip: Error, Sendable, Equatable {
  let reason: String
  let remedy: String?
}

/// What the demonstrations share.
actor Stage {
  /// A folder of the demo's own; it goes at the end.
  nonisolated let folder: String
  /// Where pictures and sounds are left for the person; nil = nowhere.
  nonisolated let out: String?
  /// Real cameras, microphones and speakers in place of the samples.
  nonisolated let isLive: Bool
  nonisolated let environment: Environment
  /// What the demo's node runs with; demonstrations may change it while they prepare.
  private(set) var settings: Settings
  /// What the demo's gateway is made with; demonstrations may change it while they prepare.
  private(set) var gatewayOptions = DevGateway.Options()
  /// The two sides, once they are there.
  private(set) var node: Node?
  private(set) var gateway: DevGateway?
  private var endings: [@Sendable () async -> Void] = []

  init(folder: String, out: String?, isLive: Bool, environment: Environment, settings: Settings) {
    self.folder = folder
    self.out = out
    self.isLive = isLive
    self.environment = environment
    self.settings = settings
  }

  func configure(_ change: @Sendable (inout Settings) -> Void) { change(&settings) }
  func configureGateway(_ change: @Sendable (inout DevGateway.Options) -> Void) { change(&gatewayOptions) }
  func enter(_ node: Node, _ gateway: DevGateway) {
    self.node = node
    self.gateway = gateway
  }
  func atEnd(_ ending: @escaping @Sendable () async -> Void) { endings.append(ending) }

  /// Ends what was started, the last first.
  func end() async {
    let endings = self.endings.reversed()
    self.endings = []
    for ending in endings { await ending() }
  }
}
