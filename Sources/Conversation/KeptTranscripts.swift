import GatewayProtocol
import Glibc
import System

/// What was said and is not known to have reached the agent. Each transcript is written down before it is sent and struck out when the
/// gateway has taken it, so that neither a crash nor a lost connection loses a word. One file, 0600.
public actor KeptTranscripts {
  public struct Kept: Sendable, Equatable {
    public let id: String
    public let text: String
    /// The gateway and the session that were bound when the key went down; nil = there was no gateway.
    public let gatewayID: String?
    public let sessionKey: String?
    public let atMs: Int64

    var json: JSON {
      .object(present: [
        "id": .string(id), "text": .string(text), "gatewayId": gatewayID.map(JSON.string),
        "sessionKey": sessionKey.map(JSON.string), "atMs": .int(atMs),
      ])
    }
    init?(json: JSON) {
      guard let id = json["id"]?.string, let text = json["text"]?.string, let atMs = json["atMs"]?.int else {
        return nil
      }
      self.init(
        id: id, text: text, gatewayID: json["gatewayId"]?.string, sessionKey: json["sessionKey"]?.string, atMs: atMs)
    }
    public init(id: String, text: String, gatewayID: String?, sessionKey: String?, atMs: Int64) {
      self.id = id
      self.text = text
      self.gatewayID = gatewayID
      self.sessionKey = sessionKey
      self.atMs = atMs
    }
  }

  /// More are not kept; then the oldest goes, which the log says.
  static let limit = 200
  private let path: String
  private var loaded: [Kept]?

  public init(path: String) { self.path = path }

  /// Oldest first.
  public func all() -> [Kept] { load() }
  public func last() -> Kept? { load().last }

  public func add(_ kept: Kept) throws(TalkError) {
    var all = load()
    all.removeAll { $0.id == kept.id }
    all.append(kept)
    if all.count > Self.limit {
      Log.warning(
        "More than \(Self.limit) transcripts wait to be sent; the oldest is given up. Send them: talknode ptt resend")
      all.removeFirst(all.count - Self.limit)
    }
    try store(all)
  }

  public func remove(_ id: String) throws(TalkError) {
    let all = load()
    if all.contains(where: { $0.id == id }) { try store(all.filter { $0.id != id }) }
  }

  /// Forgets what was kept for one gateway.
  public func forget(gateway id: String) throws(TalkError) { try store(load().filter { $0.gatewayID != id }) }

  private func load() -> [Kept] {
    if let loaded { return loaded }
    var kept: [Kept] = []
    if Files.exists(path) {
      do {
        kept = (try JSON(parsing: Files.read(path, limit: 32 << 20)).array ?? []).compactMap(Kept.init(json:))
      } catch {
        let aside = "\(path).damaged-\(WallClock.milliseconds())"
        Log.error("\(path) can't be read (\(error)). It is set aside as \(aside).")
        rename(path, aside)
      }
    }
    loaded = kept
    return kept
  }

  private func store(_ all: [Kept]) throws(TalkError) {
    loaded = all
    let bytes = JSON.array(all.map(\.json)).encoded()
    do { try Files.writeAtomically(bytes, to: path) } catch {
      throw TalkError(
        "STATE_UNUSABLE", "The transcript can't be written down: \(error).",
        remedy: "Make room, or check the permissions.")
    }
  }
}
