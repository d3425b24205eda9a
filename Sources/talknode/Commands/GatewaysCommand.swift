import Conversation
import GatewayClient
import GatewayProtocol
import System
import Transport

enum GatewaysCommand {
  static let list = Verb(
    "gateways list", "the gateways this machine knows; * is the active one", options: [.json], run: runList)
  static let use = Verb(
    "gateways use", "connect to another gateway that is known", operands: [gateway], run: runUse)
  static let forget = Verb(
    "gateways forget", "remove everything of one gateway: address, tokens, certificate", operands: [gateway],
    notes: ["The gateway itself keeps this device in its list until its owner removes it there: openclaw devices list"],
    run: runForget)

  private static let gateway = Operand("GATEWAY", "its name, host or id, as `talknode gateways` shows it")

  private static func registry(_ context: Context) throws(Failure) -> GatewayRegistry {
    try context.instance.makeFolder()
    do { return GatewayRegistry(state: try StateFolder(path: context.instance.state)) } catch { throw Failure(error) }
  }

  private static func runList(_ arguments: Arguments, _ terminal: Terminal) async throws(Failure) -> ExitStatus {
    let context = Context(arguments, terminal)
    let registry = try registry(context)
    let records = await registry.list()
    if context.wantsJSON {
      terminal.print([
        "gateways": .array(
          records.map { record in
            .object(present: [
              "id": .string(record.id), "name": .string(record.name), "url": .string(record.endpoint.description),
              "routes": .strings(record.routes.map(\.description)), "active": .bool(record.isActive),
              "fingerprint": record.pin.map { .string(hexadecimal($0)) }, "addedAtMs": .int(record.addedAtMs),
            ])
          })
      ])
    } else if records.isEmpty {
      terminal.note("No gateway is known yet. Introduce one: talknode pair CODE")
    } else {
      terminal.print(table: records.map { [$0.isActive ? "*" : " ", $0.name, $0.endpoint.description, $0.id] })
    }
    return .ok
  }

  private static func runUse(_ arguments: Arguments, _ terminal: Terminal) async throws(Failure) -> ExitStatus {
    let context = Context(arguments, terminal)
    let registry = try registry(context)
    let record = try await find(arguments[0]!, in: registry)
    let loop = context.loop()
    defer { loop.stop() }
    if let client = try await context.daemon(loop) {
      _ = try await client.call(.use(gateway: record.id))
      terminal.note("talknode connects to \(record.name) now: talknode status")
    } else {
      do { try await registry.use(record.id) } catch { throw Failure(error) }
      terminal.note("\(record.name) is the active gateway. Connect to it: talknode run")
    }
    return .ok
  }

  private static func runForget(_ arguments: Arguments, _ terminal: Terminal) async throws(Failure) -> ExitStatus {
    let context = Context(arguments, terminal)
    let registry = try registry(context)
    let record = try await find(arguments[0]!, in: registry)
    let loop = context.loop()
    defer { loop.stop() }
    if let client = try await context.daemon(loop) {
      _ = try await client.call(.forget(gateway: record.id))
    } else {
      do { try await registry.forget(record.id) } catch { throw Failure(error) }
      // As the daemon does: what was said for it is of that gateway too.
      do { try await KeptTranscripts(path: context.instance.keptTranscripts).forget(gateway: record.id) } catch {
        throw Failure(storing: error)
      }
    }
    terminal.note("\(record.name) is forgotten.")
    if record.isActive, let other = await registry.list().first {
      terminal.note("No gateway is active now. Use another: talknode gateways use '\(other.id)'")
    }
    return .ok
  }

  /// The one gateway that a person means by `word`.
  private static func find(_ word: String, in registry: GatewayRegistry) async throws(Failure) -> GatewayRecord {
    let records = await registry.list()
    if let record = records.first(where: { $0.id == word }) { return record }
    let url = Endpoint(url: word)
    let matches = records.filter {
      $0.name == word || $0.primary.host == word || $0.primary.authority == word
        || (url != nil && $0.routes.contains(url!))
    }
    if matches.count == 1 { return matches[0] }
    if matches.isEmpty {
      let near = nearest(to: word, among: records.flatMap { [$0.name, $0.primary.host] })
      throw Failure(
        "UNKNOWN_GATEWAY", "No gateway \(word) is known.",
        remedy: near.map { "Did you mean \($0)?" } ?? "talknode gateways list", exit: .data)
    }
    throw Failure(
      "AMBIGUOUS_GATEWAY", "Several gateways are meant by \(word).", cause: matches.map(\.id).joined(separator: ", "),
      remedy: "Name one by its id: talknode gateways list", exit: .data)
  }
}
