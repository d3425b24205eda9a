import Audio
import GatewayProtocol
import Glibc
import System

/// pocketsphinx as a process of its own: sound in on one descriptor, JSON lines out on another. The development gateway transcribes with it
/// what is relayed to it, so that nothing of a recogniser is in the gateway itself.
///
/// In: mono samples without a header, 16-bit little-endian or G.711 µ-law, until the end of input. Out, one object a line:
///
///     {"type":"ready"}                                  the model is loaded
///     {"type":"speechStart"}                            somebody begins to speak
///     {"type":"partial","text":"what is"}               the utterance's text so far; it replaces the one before
///     {"type":"final","text":"what is the time"}        an utterance is over; the last comes at the end of input, and may be empty
///     {"type":"error","message":"…"}                    it can't go on; the process ends with 1
public enum RecognizerWorker {
  public enum Encoding: String, Sendable, CaseIterable { case pcm16, mulaw }

  public struct Options: Sendable {
    /// Samples a second of the input.
    public var rate: Int
    public var encoding = Encoding.pcm16
    /// What is listened for; nil = dictation.
    public var grammar: SpeechGrammar?
    public var modelFolder: String?
    /// Whether an utterance is over when there is silence. Else all of the input is one utterance.
    public var endpoints = false
    /// Whether the sound has been through a telephone codec; nil = when its rate is below 16 kHz.
    public var isRelayed: Bool?

    public init(rate: Int, grammar: SpeechGrammar? = nil, modelFolder: String? = nil, endpoints: Bool = false) {
      self.rate = rate
      self.grammar = grammar
      self.modelFolder = modelFolder
      self.endpoints = endpoints
    }
  }

  /// Silence that ends an utterance when `endpoints` is set.
  static let silence = Duration.milliseconds(800)

  /// Works until the input ends, on the calling thread. Returns the process's exit code.
  public static func run(_ options: Options, input: Int32 = STDIN_FILENO, output: Int32 = STDOUT_FILENO) -> Int32 {
    func say(_ message: JSON) -> Bool {
      (try? Files.write(message.encoded() + [0x0A], to: output, named: "standard output")) != nil
    }
    do throws(SpeechError) {
      try recognise(options, input: input, say: say)
      return 0
    } catch {
      _ = say(["type": "error", "message": .string(error.description)])
      return 1
    }
  }

  private static func recognise(_ options: Options, input: Int32, say: (JSON) -> Bool) throws(SpeechError) {
    guard (4_000...192_000).contains(options.rate) else {
      throw SpeechError(.invalidSetting, "\(options.rate) is no sample rate.")
    }
    let isRelayed = options.isRelayed ?? (options.rate < PocketsphinxDecoder.rate)
    let decoder = try PocketsphinxDecoder(
      model: try PocketsphinxModel.find(options.modelFolder),
      search: options.grammar.map { .grammar($0) } ?? .dictation,
      relayed: isRelayed)
    let adapter = try RateAdapter(from: options.rate, to: PocketsphinxDecoder.rate)
    var dither = Dither()
    var ear = Ear(decoder: decoder, endpoints: options.endpoints)
    if !say(["type": "ready"]) { return }
    var bytes = [UInt8](repeating: 0, count: 8_192)
    var rest: [UInt8] = []
    while true {
      let count = read(input, &bytes, bytes.count)
      if count < 0 && errno == EINTR { continue }
      if count < 0 { throw SpeechError(.failed, "The sound can't be read: \(String(cString: strerror(errno))).") }
      rest += bytes[..<count]
      let whole = options.encoding == .pcm16 ? rest.count & ~1 : rest.count
      let piece = Array(rest[..<whole])
      rest.removeFirst(whole)
      var samples = adapter.process(
        options.encoding == .pcm16 ? PCM(littleEndian: piece, rate: options.rate).samples : MuLaw.decode(piece))
      if count == 0 { samples += adapter.finish() }
      if isRelayed { samples = dither.add(to: samples) }
      for message in ear.hear(samples.map(Int16.init(sample:))) where !say(message) { return }
      if count == 0 {
        _ = say(ear.end())
        return
      }
    }
  }

  /// What the decoder hears, as messages.
  private struct Ear {
    let decoder: PocketsphinxDecoder
    let endpoints: Bool
    private var text = ""
    private var isSpeaking = false
    private var quiet = 0

    init(decoder: PocketsphinxDecoder, endpoints: Bool) {
      self.decoder = decoder
      self.endpoints = endpoints
      decoder.start()
    }

    mutating func hear(_ samples: [Int16]) -> [JSON] {
      var messages: [JSON] = []
      var at = 0
      while at < samples.count {
        let next = min(samples.count, at + PocketsphinxDecoder.rate / 10)
        decoder.process(samples[at..<next])
        let isSpeech = decoder.isInSpeech
        quiet = isSpeech ? 0 : quiet + (next - at)
        at = next
        if isSpeech && !isSpeaking {
          isSpeaking = true
          messages.append(["type": "speechStart"])
        }
        let now = decoder.hypothesis
        if now != text && !now.isEmpty { messages.append(["type": "partial", "text": .string(now)]) }
        text = now
        if endpoints && isSpeaking && !text.isEmpty
          && quiet >= RecognizerWorker.silence.samples(at: PocketsphinxDecoder.rate)
        {
          messages.append(end())
          decoder.start()
        }
      }
      return messages
    }

    mutating func end() -> JSON {
      isSpeaking = false
      text = ""
      quiet = 0
      return ["type": "final", "text": .string(decoder.end())]
    }
  }
}
