import Audio

/// When an utterance has ended (talk-and-chat §1.2): the recogniser's own word first, else a stretch of silence after something was said.
///
/// Pure: time comes in with the events. Feed it the microphone's levels, what the recogniser says, and a tick every 200 ms.
public struct EndOfSpeech: Sendable {
  public struct Settings: Sendable, Equatable {
    /// How long it must be quiet: `talk.silenceTimeoutMs`, 900 ms when that is no positive whole number.
    public var silence: Duration
    /// The longest utterance (12 s for `once`); nil = none.
    public var limit: Duration?
    /// Whether the recogniser tells what it hears while it hears. When it does not, a voice-like level counts as something said.
    public var hasPartials: Bool

    public init(silenceMs: Int? = nil, limit: Duration? = .seconds(12), hasPartials: Bool = true) {
      silence = .milliseconds(silenceMs.map { $0 > 0 && $0 <= 600_000 ? $0 : 900 } ?? 900)
      self.limit = limit
      self.hasPartials = hasPartials
    }
  }

  public enum Event: Sendable, Equatable {
    /// One buffer's level: the root mean square of its samples, 0…1.
    case level(Float)
    /// The recogniser's text so far.
    case partial(String)
    /// The recogniser says that the utterance is over.
    case final(String)
    /// The recogniser heard no speech: ordinary silence.
    case noSpeech
    /// Whether this machine is speaking, which the microphone hears.
    case speaking(Bool)
    case tick
  }

  public enum End: String, Sendable { case final, silence, limit }

  /// How often `tick` is due.
  public static let tickInterval = Duration.milliseconds(200)
  /// How much of sound one `level` is meant to stand for: 2,048 samples at 48 kHz.
  public static let levelWindow = Duration.nanoseconds(2_048 * 1_000_000_000 / 48_000)
  /// So many levels above the threshold in a row are a voice, when there are no partial texts to go by (130 ms).
  static let voiceLevels = 3

  /// May change on the way: another recogniser takes over, or the window becomes known.
  public var settings: Settings
  public private(set) var noise = NoiseFloor()
  /// 0…1, smoothed, for an indicator.
  public private(set) var indicator: Float = 0
  /// The recogniser's newest text.
  public private(set) var text = ""
  public private(set) var end: End?

  private let start: Duration
  private var lastHeard: Duration
  private var lastActivity: Duration
  private var isSpeaking = false
  private var loudInARow = 0
  private var hasVoice = false

  /// Begins to listen. The noise floor is learnt anew each time.
  public init(_ settings: Settings = Settings(), at now: Duration) {
    self.settings = settings
    start = now
    lastHeard = now
    lastActivity = now
  }

  /// Why the utterance has ended; nil as long as it goes on. After the end nothing changes it.
  public mutating func on(_ event: Event, at now: Duration) -> End? {
    if end != nil { return end }
    switch event {
    case .level(let level): hear(level, at: now)
    case .partial(let text):
      if text.contains(where: { !$0.isWhitespace }) {
        self.text = text
        lastHeard = now
      }
    case .final(let text):
      // An empty final is the end of a turn in which nothing was understood: no utterance.
      if text.contains(where: { !$0.isWhitespace }) {
        self.text = text
        end = .final
      }
    case .noSpeech: break
    case .speaking(let isSpeaking): self.isSpeaking = isSpeaking
    case .tick:
      let isHeard = !text.isEmpty || (!settings.hasPartials && hasVoice)
      if isHeard, !isSpeaking, now - max(lastHeard, lastActivity) >= settings.silence { end = .silence }
    }
    if end == nil, let limit = settings.limit, now - start >= limit { end = .limit }
    return end
  }

  private mutating func hear(_ level: Float, at now: Duration) {
    let raw = NoiseFloor.raw(level)
    indicator = 0.8 * indicator + 0.2 * raw
    if isSpeaking { return }
    noise.learn(raw)
    guard raw >= noise.threshold else {
      loudInARow = 0
      return
    }
    lastActivity = now
    loudInARow += 1
    if loudInARow >= EndOfSpeech.voiceLevels { hasVoice = true }
  }
}

/// How loud a room is when nobody speaks, learnt from the first levels of a capture.
public struct NoiseFloor: Sendable, Equatable {
  /// So many levels are listened to before the floor is known.
  public static let levelsNeeded = 22
  private var levels: [Float] = []
  /// The mean of the quieter half of the first levels; nil until they are complete.
  public private(set) var floor: Float?

  public init() {}

  /// A microphone level on the scale that the thresholds are on.
  public static func raw(_ level: Float) -> Float { level.isNaN ? 0 : min(max(level * 10, 0), 1) }

  /// At or above this a level is activity.
  public var threshold: Float { floor.map { min(max($0 + 0.10, 0.12), 0.35) } ?? 0.18 }

  public mutating func learn(_ raw: Float) {
    if floor != nil { return }
    levels.append(raw)
    if levels.count < NoiseFloor.levelsNeeded { return }
    let quiet = levels.sorted().prefix(max(6, levels.count / 2))
    floor = quiet.reduce(0, +) / Float(quiet.count)
    levels = []
  }
}

/// Cuts a stream of samples into the buffers whose levels `EndOfSpeech` is fed.
public struct LevelWindows: Sendable {
  private let size: Int
  private var rest: [Float] = []

  public init(rate: Int) { size = max(1, EndOfSpeech.levelWindow.samples(at: rate)) }

  /// The levels of the buffers that `samples` completes, oldest first.
  public mutating func levels(of samples: [Float]) -> [Float] {
    rest += samples
    var levels: [Float] = []
    var at = 0
    while rest.count - at >= size {
      levels.append(Level(rest[at..<(at + size)]).rms)
      at += size
    }
    rest.removeFirst(at)
    return levels
  }
}
