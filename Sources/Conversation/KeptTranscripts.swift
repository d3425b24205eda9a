import Audio
import GatewayProtocol
import Glibc
import System

/// What was said and is not known to have reached the agent. Each transcript is written down before it is sent and struck out when the
/// gateway has taken it, so that neither a crash nor a lost connection loses a word. One file, 0600.
///
/// Where no transcriber could do its work, the sound itself is kept beside it, as a WAV file (0600); the newest few of them only.
public actor KeptTranscripts {
  public struct Kept: Sendable, Equatable {
    public let id: String
    /// Empty when only the sound is there.
    public let text: String
    /// The gateway and the session that were bound when the key went down; nil = there was no gateway.
    public let gatewayID: String?
    public let sessionKey: String?
    public let atMs: Int64
    /// The path of the sound that nobody could transcribe; nil for a transcript.
    public let sound: String?

    var json: JSON {
      .object(present: [
        "id": .string(id), "text": .string(text), "gatewayId": gatewayID.map(JSON.string),
        "sessionKey": sessionKey.map(JSON.string), "atMs": .int(atMs), "sound": sound.map(JSON.string),
      ])
    }
    init?(json: JSON) {
      guard let id = json["id"]?.string, let text = json["text"]?.string, let atMs = json["atMs"]?.int else {
        return nil
      }
      self.init(
        id: id, text: text, gatewayID: json["gatewayId"]?.string, sessionKey: json["sessionKey"]?.string, atMs: atMs,
        sound: json["sound"]?.string)
    }
    public init(
      id: String, text: String, gatewayID: String?, sessionKey: String?, atMs: Int64, sound: String? = nil
    ) {
      self.sound = sound
      self.id = id
      self.text = text
      self.gatewayID = gatewayID
      self.sessionKey = sessionKey
      self.atMs = atMs
    }
  }

  /// More are not kept; then the oldest goes, which the log says.
  static let limit = 200
  /// As many sounds are kept: each may be five minutes and 10 MB.
  static let soundLimit = 3
  private let path: String
  private var loaded: [Kept]?

  public init(path: String) { self.path = path }

  /// Oldest first.
  public func all() -> [Kept] { load() }
  public func last() -> Kept? { load().last }

  public func add(_ kept: Kept) throws(TalkError) {
    var all = load()
    // A sound that has been understood after all has done its work.
    for old in all where old.id == kept.id && old.sound != kept.sound { if let sound = old.sound { unlink(sound) } }
    all.removeAll { $0.id == kept.id }
    all.append(kept)
    if all.count > Self.limit {
      Log.warning(
        "More than \(Self.limit) transcripts wait to be sent; the oldest is given up. Send them: talknode ptt resend")
      for old in all.prefix(all.count - Self.limit) { if let sound = old.sound { unlink(sound) } }
      all.removeFirst(all.count - Self.limit)
    }
    try store(all)
  }

  /// Keeps a sound. Returns the note of it.
  @discardableResult
  public func add(
    sound: PCM, id: String, gatewayID: String?, sessionKey: String?, atMs: Int64
  ) throws(TalkError) -> Kept {
    let path = folder + "/unheard-\(id).wav"
    do { try Files.writeAtomically(AudioFile.wav(sound), to: path) } catch {
      throw TalkError(
        "STATE_UNUSABLE", "The sound can't be written down: \(error).", remedy: "Make room, or check the permissions.")
    }
    let note = Kept(id: id, text: "", gatewayID: gatewayID, sessionKey: sessionKey, atMs: atMs, sound: path)
    try add(note)
    for old in load().filter({ $0.sound != nil }).dropLast(Self.soundLimit) {
      Log.warning("More than \(Self.soundLimit) captures wait to be understood; the oldest is given up.")
      try remove(old.id)
    }
    return note
  }

  public func remove(_ id: String) throws(TalkError) {
    let all = load()
    guard let gone = all.first(where: { $0.id == id }) else { return }
    try store(all.filter { $0.id != id })
    if let sound = gone.sound { unlink(sound) }
  }

  /// Gives a transcript another id, under which it can be sent anew.
  func renew(_ id: String, as new: String) throws(TalkError) {
    try store(
      load().map { old in
        if old.id != id { return old }
        return Kept(
          id: new, text: old.text, gatewayID: old.gatewayID, sessionKey: old.sessionKey, atMs: old.atMs,
          sound: old.sound)
      })
  }

  /// Forgets what was kept for one gateway.
  public func forget(gateway id: String) throws(TalkError) {
    let gone = load().filter { $0.gatewayID == id }
    try store(load().filter { $0.gatewayID != id })
    for sound in gone.compactMap(\.sound) { unlink(sound) }
  }

  private var folder: String { path.lastIndex(of: "/").map { String(path[..<$0]) } ?? "." }

  private func load() -> [Kept] {
    if let loaded { return loaded }
    var kept: [Kept] = []
    if Files.exists(path) {
      do {
        kept = (try JSON(parsing: Files.read(path, limit: 32 << 20)).array ?? []).compactMap(Kept.init(json:))
      } catch {
        let aside = Files.setAside(path)
        Log.error("\(path) can't be read (\(error)).\(aside.map { " It is set aside as \($0)." } ?? "")")
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
