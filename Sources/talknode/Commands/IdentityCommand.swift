import Crypto
import GatewayClient
import GatewayProtocol
import System

enum IdentityCommand {
  static let verb = Verb(
    "identity", "who this device is to every gateway", options: [.json],
    notes: ["The id is what gateways list; the private key behind it never leaves the state folder."], run: run)

  private static func run(_ arguments: Arguments, _ terminal: Terminal) async throws(Failure) -> ExitStatus {
    let context = Context(arguments, terminal)
    let identity: DeviceIdentity
    do {
      identity = try DeviceIdentity.loadOrCreate(in: try StateFolder(path: context.instance.state))
    } catch {
      throw Failure(error)
    }
    let publicKey = Base64.encodeURL(identity.publicKey)
    if context.wantsJSON {
      terminal.print([
        "deviceId": .string(identity.id), "publicKey": .string(publicKey), "createdAtMs": .int(identity.createdAtMs),
        "state": .string(context.instance.state),
      ])
    } else {
      terminal.print(table: [
        ["device id", identity.id], ["public key", publicKey], ["created", WallClock.iso8601(identity.createdAtMs)],
        ["kept in", context.instance.state],
      ])
    }
    return .ok
  }
}
