import Audio
import System
import TestSupport
import Testing

@Suite("Sound files")
struct AudioFileTests {
  /// A tone in a file made by another program.
  private func file(_ kind: String, _ arguments: [String] = [], rate: Int = 44_100) async throws -> [UInt8] {
    let folder = TemporaryFolder()
    let tone = PCM.tone(500, seconds: 1, rate: rate, amplitude: 0.5)
    try Files.writeAtomically(AudioFile.wav(tone), to: folder("in.wav"))
    // Debian's sox has no MP3 and no Opus encoder.
    let encoder =
      kind == "mp3" ? ["lame", "--quiet"] + arguments : kind == "opus" ? ["opusenc", "--quiet"] : ["sox"]
    let options = kind == "mp3" || kind == "opus" ? [] : arguments
    _ = try await output(of: encoder + [folder("in.wav")] + options + [folder("out.\(kind)")])
    return try Files.read(folder("out.\(kind)"))
  }

  @Test(
    "WAV, FLAC, Ogg Vorbis and MP3 are read at their own rate, stereo mixed down",
    arguments: [
      ("wav", []), ("flac", []), ("ogg", []), ("mp3", []), ("wav", ["-c", "2"]), ("flac", ["-c", "2", "-b", "24"]),
      ("mp3", ["-V", "2"]), ("wav", ["-b", "8"]), ("wav", ["-e", "mu-law"]), ("wav", ["-e", "float", "-b", "32"]),
    ] as [(String, [String])])
  func reads(_ kind: String, _ arguments: [String]) async throws {
    let sound = try await AudioFile.decode(try await file(kind, arguments))
    #expect(sound.rate == 44_100)
    // MP3 and its encoder add a frame or two of silence.
    #expect(abs(sound.duration.inSeconds - 1) < 0.12)
    let loud = try #require(sound.loudRange)
    #expect(abs(PCM(Array(sound.samples[loud]), rate: 44_100).hertz - 500) < 2)
    #expect(abs(Level(sound.samples).peak - 0.5) < 0.05)
  }

  @Test("Ogg with Opus is read")
  func opus() async throws {
    let sound = try await AudioFile.decode(try await file("opus"))
    #expect(sound.rate == 48_000)
    #expect(abs(sound.hertz - 500) < 3)
    #expect(abs(sound.duration.inSeconds - 1) < 0.1)
  }

  @Test("a file of ours is read by another program, and by ourselves without a change")
  func writesWAV() async throws {
    let folder = TemporaryFolder()
    let tone = PCM(int16: PCM.tone(300, seconds: 0.25, rate: 24_000).int16, rate: 24_000)
    let bytes = AudioFile.wav(tone)
    #expect(try await AudioFile.decode(bytes) == tone)
    try Files.writeAtomically(bytes, to: folder("ours.wav"))
    let said = try await output(of: ["soxi", folder("ours.wav")])
    #expect(said.contains("24000") && said.contains("16-bit") && said.contains("6000 samples"))
  }

  @Test(
    "a container that is not read here is named, and an unknown one is called unknown",
    arguments: [
      ([0x1A, 0x45, 0xDF, 0xA3, 0, 0, 0, 0], "WebM"), ([0, 0, 0, 24] + Array("ftypM4A ".utf8), "MP4"),
      (Array("FORM....AIFF".utf8), "AIFF"), (Array("<html>no sound</html>".utf8), "not known"), ([], "not known"),
    ] as [([UInt8], String)])
  func refuses(_ bytes: [UInt8], _ word: String) async {
    let error = await #expect(throws: AudioError.self) { try await AudioFile.decode(bytes) }
    #expect(error?.code == .formatUnsupported)
    #expect(error?.summary.contains(word) == true)
  }

  @Test("a file that is too large, a sound that is too long and a header that lies about its length are refused")
  func limits() async throws {
    let wav = AudioFile.wav(PCM.tone(300, seconds: 2, rate: 8000))
    func code(_ bytes: [UInt8], _ limits: AudioFile.Limits) async -> AudioError.Code? {
      do throws(AudioError) { _ = try await AudioFile.decode(bytes, limits: limits) } catch { return error.code }
      return nil
    }
    #expect(await code(wav, .init(bytes: wav.count)) == nil)
    #expect(await code(wav, .init(bytes: wav.count - 1)) == .tooLong)
    #expect(await code(wav, .init(duration: .seconds(2))) == nil)
    #expect(await code(wav, .init(duration: .milliseconds(1999))) == .tooLong)
    let samples = [UInt8](repeating: 1, count: 32_000)
    let raw = AudioError.Code.tooLong
    func rawCode(_ limits: AudioFile.Limits) async -> AudioError.Code? {
      do throws(AudioError) { _ = try await AudioFile.decode(samples, as: .samples(rate: 8000), limits: limits) } catch
      {
        return error.code
      }
      return nil
    }
    #expect(await rawCode(.init(duration: .seconds(2))) == nil)
    #expect(await rawCode(.init(duration: .seconds(1))) == raw)
    // The sizes in the header are four times what is there.
    var lying = wav
    lying.replaceSubrange(40..<44, with: [0, 0, 2, 0])
    let sound = try await AudioFile.decode(lying)
    #expect(sound.samples.count <= 16_000)
  }

  @Test("damaged files end in an error or in sound, never in a crash or without end")
  func damage() async throws {
    let seed = UInt64.random(in: 0...UInt64.max)
    var random = SeededRandom(seed: seed)
    for (kind, rate) in [("wav", 8000), ("flac", 8000), ("ogg", 8000), ("mp3", 16_000)] {
      let whole = try await file(kind, rate: rate)
      for round in 0..<60 {
        var bytes = whole
        if round % 3 == 0 { bytes.removeLast(Int.random(in: 1..<bytes.count, using: &random)) }
        for _ in 0..<Int.random(in: 1...20, using: &random) where !bytes.isEmpty {
          let place = round % 2 == 0 ? min(bytes.count, 200) : bytes.count
          bytes[Int.random(in: 0..<place, using: &random)] = UInt8.random(in: 0...255, using: &random)
        }
        do throws(AudioError) {
          let sound = try AudioFile.decodeNow(bytes, limits: .init(duration: .seconds(10)))
          #expect(!sound.samples.isEmpty && sound.duration <= .seconds(10), "seed \(seed)")
        } catch {
          #expect([.damaged, .formatUnsupported, .tooLong].contains(error.code), "seed \(seed): \(error)")
        }
      }
    }
  }

  @Test(
    "what is headerless is never played, unless its rate is named and the caller takes it",
    arguments: [
      ("pcm_24000", nil, nil, true, ClipFormat.samples(rate: 24_000)),
      ("pcm_24000", nil, nil, false, .headerless("pcm_24000")),
      ("PCM_16000", nil, nil, true, .samples(rate: 16_000)),
      ("pcm_fast", nil, nil, true, .headerless("pcm_fast")), ("pcm_0", nil, nil, true, .headerless("pcm_0")),
      ("pcm", nil, nil, true, .headerless("pcm")), ("mulaw", nil, nil, true, .headerless("mulaw")),
      ("ulaw_8000", "audio/mpeg", nil, true, .headerless("ulaw_8000")),
      ("alaw_8000", nil, nil, true, .headerless("alaw_8000")),
      ("raw-24khz-16bit-mono-pcm", nil, nil, true, .headerless("raw-24khz-16bit-mono-pcm")),
      ("raw_16", nil, nil, true, .headerless("raw_16")), ("mp3_44100_128", nil, nil, true, .container),
      ("opus_48000_64", "audio/ogg", ".opus", true, .container), (nil, nil, nil, true, .container),
      (nil, "audio/L16;rate=24000", nil, true, .headerless("audio/l16")),
      (nil, "audio/pcm", nil, true, .headerless("audio/pcm")),
      (nil, "audio/x-raw", nil, false, .headerless("audio/x-raw")),
      (nil, nil, ".PCM", true, .headerless("pcm")), (nil, "audio/wav", "wav", false, .container),
    ] as [(String?, String?, String?, Bool, ClipFormat)])
  func clipFormats(_ name: String?, _ mime: String?, _ suffix: String?, _ allowing: Bool, _ expected: ClipFormat) {
    #expect(
      ClipFormat(name: name, mimeType: mime, fileExtension: suffix, allowingSamples: allowing) == expected)
  }

  @Test("received bytes are decoded by what they are said to be")
  func clips() async throws {
    let sound = try await AudioFile.decode([0, 0x40, 0, 0xC0, 9], as: .samples(rate: 24_000))
    #expect(sound == PCM([0.5, -0.5], rate: 24_000))
    let refusal = await #expect(throws: AudioError.self) {
      try await AudioFile.decode([0, 0x40], as: .headerless("mulaw"))
    }
    #expect(refusal?.code == .formatHeaderless)
    let empty = await #expect(throws: AudioError.self) { try await AudioFile.decode([], as: .samples(rate: 24_000)) }
    #expect(empty?.code == .damaged)
    let wav = AudioFile.wav(PCM([0.5], rate: 8000))
    #expect(try await AudioFile.decode(wav, as: .container) == PCM([0.5], rate: 8000))
  }
}
