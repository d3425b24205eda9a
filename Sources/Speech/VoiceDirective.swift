import GatewayProtocol
import System

/// The line with which an agent says how its reply is to be spoken (talk-and-chat §1.5): a JSON object alone in the first line that is
/// not empty.
public struct VoiceDirective: Sendable, Equatable {
  /// A voice's id or alias, as written.
  public var voice: String?
  public var model: String?
  /// 0.5…2.0.
  public var speed: Double?
  /// Words a minute; the speed it stands for lies between 0.5 and 2.0.
  public var rate: Int?
  /// 0…1.
  public var stability: Double?
  /// 0…1.
  public var similarity: Double?
  /// 0…1.
  public var style: Double?
  public var speakerBoost: Bool?
  /// 0 or more.
  public var seed: Int?
  /// `auto`, `on` or `off`.
  public var normalize: String?
  public var language: String?
  /// For example `mp3_44100_128` or `pcm_24000`.
  public var outputFormat: String?
  /// 0…4.
  public var latencyTier: Int?
  /// Whether voice and model are for this reply only.
  public var once: Bool?
  /// Keys that mean nothing here, sorted. For logs.
  public var unknownKeys: [String] = []

  public init() {}

  /// The voice's usual words a minute, to which `rate` is related.
  public static let usualRate = 175

  /// How much faster than usual: by `speed`, else by `rate`.
  public var effectiveSpeed: Double? { speed ?? rate.map { Double($0) / Double(VoiceDirective.usualRate) } }

  /// A longer line is no directive.
  private static let lineLimit = 16_384

  /// The directive of a reply, and the text without it and the empty lines before it. A reply without one is returned as it is.
  public static func parse(_ reply: String) -> (directive: VoiceDirective?, text: String) {
    var rest = reply[...]
    while !rest.isEmpty {
      let end = rest.firstIndex(where: \.isNewline) ?? rest.endIndex
      let line = rest[..<end].trimmed
      rest = end == rest.endIndex ? rest[end...] : rest[rest.index(after: end)...]
      if line.isEmpty { continue }
      guard line.hasPrefix("{"), line.hasSuffix("}"), line.utf8.count <= lineLimit,
        case .object(let members)? = try? JSON(parsing: line), let directive = VoiceDirective(members)
      else { break }
      return (directive, String(rest))
    }
    return (nil, reply)
  }

  /// Nil when no known key has a value that can be used.
  private init?(_ members: [String: JSON]) {
    var keys = Keys(members)
    voice = keys.string("voice", "voice_id", "voiceId")
    model = keys.string("model", "model_id", "modelId")
    speed = keys.number("speed", in: 0.5...2)
    rate = keys.integer("rate", "wpm", where: { Double($0) > 0.5 * 175 && Double($0) < 2 * 175 })
    stability = keys.number("stability", in: 0...1)
    similarity = keys.number("similarity", "similarity_boost", "similarityBoost", in: 0...1)
    style = keys.number("style", in: 0...1)
    speakerBoost =
      keys.bool("speaker_boost", "speakerBoost") ?? keys.bool("no_speaker_boost", "noSpeakerBoost").map { !$0 }
    seed = keys.integer("seed", where: { $0 >= 0 })
    normalize = keys.string("normalize", "apply_text_normalization").map { $0.lowercased() }
      .flatMap { ["auto", "on", "off"].contains($0) ? $0 : nil }
    language = keys.string("lang", "language_code", "language")
    outputFormat = keys.string("output_format", "format")
    latencyTier = keys.integer("latency", "latency_tier", "latencyTier", where: { (0...4).contains($0) })
    once = keys.bool("once")
    var known = self
    known.unknownKeys = []
    if known == VoiceDirective() { return nil }
    unknownKeys = keys.unknown
  }

  /// An object's members by name, whatever the case of their letters.
  private struct Keys {
    private let members: [String: JSON]
    private let folded: [String: JSON]
    private var asked: Set<String> = []

    init(_ members: [String: JSON]) {
      self.members = members
      // Of names that differ in case only, the one that sorts first counts.
      folded = Dictionary(members.sorted { $0.key < $1.key }.map { ($0.key.lowercased(), $0.value) }) { first, _ in
        first
      }
    }

    var unknown: [String] { members.keys.filter { !asked.contains($0.lowercased()) }.sorted() }

    /// The first of `names` that is there wins, also when its value can't be used.
    private mutating func value(_ names: [String]) -> JSON? {
      for name in names { asked.insert(name.lowercased()) }
      for name in names {
        if let value = members[name] ?? folded[name.lowercased()], value != .null { return value }
      }
      return nil
    }

    mutating func string(_ names: String...) -> String? {
      switch value(names) {
      case .string(let text)?: text.trimmed.isEmpty ? nil : text.trimmed
      case .int(let number)?: String(number)
      case .double(let number)?: "\(number)"
      default: nil
      }
    }

    mutating func number(_ names: String..., in range: ClosedRange<Double>) -> Double? {
      let number = value(names).flatMap { value in value.double ?? value.string.flatMap { Double($0.trimmed) } }
      return number.flatMap { range.contains($0) ? $0 : nil }
    }

    mutating func integer(_ names: String..., where isUsable: (Int) -> Bool) -> Int? {
      let number = value(names).flatMap { value -> Int? in
        if let text = value.string?.trimmed { return Int(text) ?? Double(text).flatMap { Int(exactly: $0) } }
        return value.int.flatMap { Int(exactly: $0) }
      }
      return number.flatMap { isUsable($0) ? $0 : nil }
    }

    mutating func bool(_ names: String...) -> Bool? { value(names)?.bool }
  }
}

/// The voice and model that replies are spoken with until a directive says otherwise (talk-and-chat §1.5).
public struct VoiceDefaults: Sendable, Equatable {
  public private(set) var voice: String?
  public private(set) var model: String?

  public init(voice: String? = nil, model: String? = nil) {
    self.voice = voice
    self.model = model
  }

  /// What this reply is spoken with. Without `once` a directive's voice and model become the defaults of the session.
  public mutating func apply(_ directive: VoiceDirective?) -> (voice: String?, model: String?) {
    let chosen = (directive?.voice ?? voice, directive?.model ?? model)
    if let directive, directive.once != true { (voice, model) = chosen }
    return chosen
  }
}
