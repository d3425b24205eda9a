import Speech
import Testing

/// When an utterance has ended (talk-and-chat §1.2).
@Suite("End of speech") struct EndOfSpeechTests {
  private typealias Event = EndOfSpeech.Event

  /// Plays events, each at its millisecond; the ticks every 200 ms come by themselves. Returns why and when it ended.
  private func play(
    _ events: [(Int, EndOfSpeech.Event)], _ settings: EndOfSpeech.Settings = .init(), until last: Int = 15_000
  ) -> (end: EndOfSpeech.End, at: Int)? {
    var machine = EndOfSpeech(settings, at: .zero)
    let ticks = stride(from: 200, through: last, by: 200).map { ($0, Event.tick) }
    for (at, event) in (events + ticks).sorted(by: { $0.0 < $1.0 }) {
      if let end = machine.on(event, at: .milliseconds(at)) { return (end, at) }
    }
    return nil
  }

  /// A room's noise for a second: 22 levels and more.
  private let quietRoom = (0..<25).map { ($0 * 43, EndOfSpeech.Event.level(0.002)) }

  @Test("silence ends it 900 ms after the last text, at the next tick")
  func silence() {
    let result = play([(1_000, .partial("turn")), (1_500, .partial("turn on"))])
    #expect(result?.end == .silence && result?.at == 2_400)
  }

  @Test("when a recogniser without texts on the way takes over, the voice that was heard before counts")
  func otherRecogniser() {
    var machine = EndOfSpeech(.init(limit: nil), at: .zero)
    for index in 0..<10 { _ = machine.on(.level(0.1), at: .milliseconds(index * 43)) }
    #expect(machine.on(.tick, at: .seconds(3)) == nil)
    machine.settings.hasPartials = false
    #expect(machine.on(.tick, at: .seconds(3)) == .silence)
  }

  @Test("as long as nothing was understood, silence ends nothing")
  func nothingHeard() {
    let result = play([(500, .partial("  ")), (600, .noSpeech)])
    #expect(result?.end == .limit && result?.at == 12_000)
  }

  @Test("a level above the threshold puts the end off")
  func activity() {
    let result = play(quietRoom + [(1_200, .partial("turn on")), (1_500, .level(0.05)), (2_000, .level(0.05))])
    #expect(result?.end == .silence && result?.at == 3_000)
  }

  @Test("a level below the threshold does not")
  func murmur() {
    let result = play(quietRoom + [(1_200, .partial("turn on")), (2_000, .level(0.01))])
    #expect(result?.end == .silence && result?.at == 2_200)
  }

  @Test("the recogniser's final ends it at once")
  func final() {
    let result = play([(700, .partial("turn")), (731, .final("turn on the light")), (800, .partial("more"))])
    #expect(result?.end == .final && result?.at == 731)
  }

  @Test("an empty final ends nothing")
  func emptyFinal() {
    #expect(play([(700, .final("  "))], until: 3_000) == nil)
  }

  @Test("the limit ends it in mid-sentence")
  func limit() {
    let words = (1...140).map { ($0 * 100, EndOfSpeech.Event.partial("word \($0)")) }
    let result = play(words)
    #expect(result?.end == .limit && result?.at == 12_000)
    #expect(play(words, .init(limit: nil), until: 13_900) == nil)
  }

  @Test("while this machine speaks, silence is none and levels teach nothing")
  func speaking() {
    let loud = (0..<30).map { ($0 * 43, EndOfSpeech.Event.level(0.09)) }
    let result = play(
      [(0, .speaking(true))] + loud + [(1_400, .partial("turn on")), (4_000, .speaking(false))])
    #expect(result?.end == .silence && result?.at == 4_000)
    var machine = EndOfSpeech(at: .zero)
    _ = machine.on(.speaking(true), at: .zero)
    for (at, event) in loud { _ = machine.on(event, at: .milliseconds(at)) }
    #expect(machine.noise.floor == nil && machine.noise.threshold == 0.18)
    #expect(machine.indicator > 0.8)
  }

  @Test("without partial texts a voice of some length counts as something said")
  func levelsOnly() {
    let settings = EndOfSpeech.Settings(hasPartials: false)
    let voice = (0..<10).map { (1_200 + $0 * 43, EndOfSpeech.Event.level(0.06)) }
    let result = play(quietRoom + voice, settings)
    // The last loud level is at 1,587 ms.
    #expect(result?.end == .silence && result?.at == 2_600)
    // A click is no voice.
    #expect(play(quietRoom + [(1_200, .level(0.5))], settings)?.end == .limit)
  }

  @Test(
    "the window is 900 ms unless a positive whole number says otherwise",
    arguments: [(nil, 900), (0, 900), (-5, 900), (700, 700), (1_500, 1_500), (99_999_999, 900)] as [(Int?, Int)])
  func window(_ given: Int?, _ expected: Int) {
    #expect(EndOfSpeech.Settings(silenceMs: given).silence == .milliseconds(expected))
  }

  @Test("after the end nothing changes it")
  func ended() {
    var machine = EndOfSpeech(at: .zero)
    _ = machine.on(.final("one"), at: .milliseconds(10))
    #expect(machine.on(.final("two"), at: .milliseconds(20)) == .final)
    #expect(machine.on(.tick, at: .seconds(60)) == .final)
    #expect(machine.text == "one")
  }
}

@Suite("Noise floor") struct NoiseFloorTests {
  private func floor(_ levels: [Float]) -> NoiseFloor {
    var floor = NoiseFloor()
    for level in levels { floor.learn(level) }
    return floor
  }

  @Test("it is known after 22 levels, and not before")
  func count() {
    #expect(floor(Array(repeating: 0.1, count: 21)).floor == nil)
    #expect(floor(Array(repeating: 0.1, count: 21)).threshold == 0.18)
    #expect(floor(Array(repeating: 0.125, count: 22)).floor == 0.125)
  }

  @Test("it is the mean of the quieter half, so that speech in the first second does not spoil it")
  func quietHalf() {
    let levels = Array(repeating: Float(0.02), count: 11) + Array(repeating: 0.9, count: 11)
    #expect(abs((floor(levels.reversed()).floor ?? 1) - 0.02) < 1e-6)
  }

  @Test(
    "the threshold is 0.10 above it, within 0.12 and 0.35",
    arguments: [(0, 0.12), (0.01, 0.12), (0.1, 0.2), (0.25, 0.35), (1, 0.35)] as [(Float, Float)])
  func threshold(_ level: Float, _ expected: Float) {
    #expect(abs(floor(Array(repeating: level, count: 22)).threshold - expected) < 1e-6)
  }

  @Test("later levels teach nothing")
  func learnsOnce() {
    #expect(floor(Array(repeating: 0.125, count: 22) + Array(repeating: 0.9, count: 50)).floor == 0.125)
  }

  @Test(
    "a microphone level is ten-fold, between 0 and 1",
    arguments: [(0.05, 0.5), (0.2, 1), (-1, 0), (.nan, 0)] as [(Float, Float)])
  func raw(_ level: Float, _ expected: Float) {
    #expect(NoiseFloor.raw(level) == expected)
  }

  @Test("levels come per 2,048 samples at 48 kHz, however the sound is cut")
  func windows() {
    let tone = (0..<48_000).map { _ in Float(0.5) }
    var whole = LevelWindows(rate: 48_000)
    let levels = whole.levels(of: tone)
    #expect(levels.count == 48_000 / 2_048 && levels.allSatisfy { abs($0 - 0.5) < 1e-3 })
    var pieces = LevelWindows(rate: 48_000)
    var cut: [Float] = []
    for start in stride(from: 0, to: 48_000, by: 777) {
      cut += pieces.levels(of: Array(tone[start..<min(48_000, start + 777)]))
    }
    #expect(cut == levels)
    var slow = LevelWindows(rate: 16_000)
    #expect(slow.levels(of: Array(repeating: 0, count: 16_000)).count == 23)
  }
}
