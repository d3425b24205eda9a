import System
import TestSupport
import Testing

@testable import Audio

@Suite("The queues of capture and playback")
struct QueueTests {
  private func chunk(_ position: Int, _ count: Int = 100) -> Capture.Event {
    .chunk(
      Capture.Chunk(
        samples: [Float](repeating: 0.1, count: count), position: position, at: .zero, level: Level()))
  }

  @Test("a reader gets events in order, then the end, then nil for ever")
  func order() async throws {
    let buffer = CaptureBuffer(rate: 1000, bound: .seconds(1))
    buffer.add(chunk(0))
    buffer.add(.notice(.gap))
    buffer.end(AudioError(.deviceLost, "Gone."))
    buffer.add(chunk(100))
    buffer.end(nil)
    #expect(try await buffer.next() == chunk(0))
    #expect(try await buffer.next() == .notice(.gap))
    await #expect(throws: AudioError(.deviceLost, "Gone.")) { try await buffer.next() }
    #expect(try await buffer.next() == nil)
  }

  @Test("a reader that is too slow loses the oldest sound, is told how much, and keeps the notices")
  func overflow() async throws {
    let buffer = CaptureBuffer(rate: 1000, bound: .seconds(1))
    buffer.add(.notice(.gap))
    for index in 0..<13 { buffer.add(chunk(index * 100)) }
    buffer.end(nil)
    #expect(try await buffer.next() == .notice(.overflow(.milliseconds(300))))
    #expect(try await buffer.next() == .notice(.gap))
    for index in 3..<13 { #expect(try await buffer.next() == chunk(index * 100)) }
    #expect(try await buffer.next() == nil)
  }

  @Test("a waiting reader is woken by an event, by the end, and by its own cancellation")
  func waking() async throws {
    let buffer = CaptureBuffer(rate: 1000, bound: .seconds(1))
    async let first = buffer.next()
    try await Task.sleep(for: .milliseconds(5))
    buffer.add(chunk(0))
    #expect(try await first == chunk(0))
    let cancelled = Task { try await buffer.next() }
    try await Task.sleep(for: .milliseconds(5))
    cancelled.cancel()
    #expect(try await cancelled.value == nil)
    async let second = buffer.next()
    try await Task.sleep(for: .milliseconds(5))
    buffer.end(nil)
    #expect(try await second == nil)
  }

  @Test("a pipe cuts exact chunks at the reader's rate, keeps position and time, and hands over the rest at the end")
  func pipe() async throws {
    let buffer = CaptureBuffer(rate: 8000, bound: .seconds(10))
    let pipe = CapturePipe(options: .init(rate: 8000), buffer: buffer, position: 1000) { _ in }
    // The device may speak before its rate is known.
    pipe.deliver(.samples([Float](repeating: 0.25, count: 1000), at: .seconds(5)))
    try pipe.begin(rate: 16_000)
    pipe.deliver(.samples([Float](repeating: 0.25, count: 1000), at: .seconds(5) + .microseconds(62_500)))
    #expect(pipe.finish() == 2000)
    pipe.deliver(.samples([Float](repeating: 0.25, count: 1000), at: .seconds(6)))
    #expect(pipe.finish() == 2000)
    buffer.end(nil)
    var chunks: [Capture.Chunk] = []
    while let event = try await buffer.next() {
      if case .chunk(let chunk) = event { chunks.append(chunk) }
    }
    #expect(chunks.map(\.samples.count) == [160, 160, 160, 160, 160, 160, 40])
    #expect(chunks.map(\.position) == [1000, 1160, 1320, 1480, 1640, 1800, 1960])
    #expect(chunks[1].at - chunks[0].at == .milliseconds(20))
    #expect(chunks[0].at == .seconds(5))
  }

  @Test("the first chunk may be shorter, so that a reader knows soon that sound comes; no sample is lost")
  func firstChunk() async throws {
    let buffer = CaptureBuffer(rate: 16_000, bound: .seconds(10))
    let options = Capture.Options(chunk: .milliseconds(60), first: .milliseconds(20))
    let pipe = CapturePipe(options: options, buffer: buffer, position: 0) { _ in }
    try pipe.begin(rate: 16_000)
    for _ in 0..<7 { pipe.deliver(.samples([Float](repeating: 0.25, count: 320), at: .seconds(5))) }
    #expect(pipe.finish() == 2240)
    buffer.end(nil)
    var sizes: [Int] = []
    while let event = try await buffer.next() {
      if case .chunk(let chunk) = event { sizes.append(chunk.samples.count) }
    }
    #expect(sizes == [320, 960, 960])
  }

  @Test("a pipe finds a second of zeros once, and the first sound, and nothing after that")
  func zeros() throws {
    let buffer = CaptureBuffer(rate: 16_000, bound: .seconds(10))
    let found = Lock<[CapturePipe.Finding]>([])
    let pipe = CapturePipe(options: .init(), buffer: buffer, position: 0) { finding in
      found.withLock { $0.append(finding) }
    }
    try pipe.begin(rate: 48_000)
    let zeros = [Float](repeating: 0, count: 960)
    #expect(found.withLock { $0 } == [])
    for _ in 0..<50 { pipe.deliver(.samples(zeros, at: .zero)) }
    #expect(found.withLock { $0 } == [.samples])
    for _ in 0..<60 { pipe.deliver(.samples(zeros, at: .zero)) }
    #expect(found.withLock { $0 } == [.samples, .onlyZeros])
    pipe.deliver(.samples([0, 0, 1e-5], at: .zero))
    for _ in 0..<60 { pipe.deliver(.samples(zeros, at: .zero)) }
    #expect(found.withLock { $0 } == [.samples, .onlyZeros, .sound])
    let lost = AudioError(.deviceLost, "Gone.")
    pipe.deliver(.ended(lost))
    #expect(found.withLock { $0.last } == .ended(lost))
    _ = pipe.finish()
    pipe.deliver(.ended(lost))
    #expect(found.withLock { $0.count } == 4)
  }

  @Test("a feed gives what was pushed, in order, however it is pulled, and suspends its producer above the limit")
  func feed() async {
    let feed = OutputFeed(limit: 1000)
    let seed = UInt64.random(in: 0...UInt64.max)
    let count = 200_000
    let producer = Task {
      var random = SeededRandom(seed: seed)
      var next = 0
      while next < count {
        let size = min(count - next, Int.random(in: 1...900, using: &random))
        #expect(await feed.push((next..<(next + size)).map(Float.init)))
        next += size
      }
      feed.end()
    }
    var random = SeededRandom(seed: seed &+ 1)
    var pulled: [Float] = []
    while true {
      let (samples, isEnd) = feed.pull(Int.random(in: 0...1500, using: &random))
      pulled += samples
      if isEnd { break }
      if samples.isEmpty { await Task.yield() }
    }
    await producer.value
    #expect(pulled.count == count && zip(pulled, 0..<count).allSatisfy { $0 == Float($1) }, "seed \(seed)")
    #expect(feed.pulled == count && !feed.isWaiting)
  }

  @Test("a closed feed lets its producer go, takes nothing more, and is at its end")
  func closedFeed() async {
    let feed = OutputFeed(limit: 10)
    let producer = Task { await feed.push([Float](repeating: 0, count: 100)) }
    while !feed.isWaiting { await Task.yield() }
    feed.close()
    #expect(await producer.value == false)
    #expect(await feed.push([1]) == false)
    #expect(feed.pull(10).samples.isEmpty && feed.pull(10).isEnd)
  }
}

@Suite("Rules that are written down")
struct RuleTests {
  private func device(_ connection: AudioDevice.Connection, asleep: Bool) -> AudioDevice {
    AudioDevice(
      backend: "pulse", name: "sink", label: "Sink", direction: .output, isSuspended: asleep, connection: connection)
  }

  @Test("pre-roll: nothing on a speaker that is awake, the more the longer it takes to wake up, a setting wins")
  func preRoll() {
    #expect(PreRoll(for: device(.builtIn, asleep: false), setting: nil).duration == .zero)
    #expect(PreRoll(for: device(.usb, asleep: true), setting: nil).duration == .milliseconds(200))
    #expect(PreRoll(for: device(.hdmi, asleep: true), setting: nil).duration == .milliseconds(300))
    #expect(PreRoll(for: device(.bluetooth, asleep: true), setting: nil).duration == .milliseconds(500))
    #expect(PreRoll(for: device(.bluetooth, asleep: false), setting: nil).duration == .milliseconds(150))
    #expect(PreRoll(for: device(.bluetooth, asleep: true), setting: .zero).duration == .zero)
    #expect(PreRoll(for: device(.builtIn, asleep: false), setting: .seconds(1)).duration == .seconds(1))
  }

  @Test("a device is meant by its name, or by a part of name or label that fits one; a monitor only by its own name")
  func chosen() {
    func input(_ name: String, _ label: String, isDefault: Bool = false, isMonitor: Bool = false) -> AudioDevice {
      AudioDevice(
        backend: "pulse", name: name, label: label, direction: .input, isDefault: isDefault, isMonitor: isMonitor)
    }
    let devices = [
      input("alsa_input.usb-Yeti", "Blue Yeti"), input("alsa_input.pci", "Built-in Audio", isDefault: true),
      input("alsa_output.pci.monitor", "Monitor of Built-in Audio", isMonitor: true),
      AudioDevice(backend: "pulse", name: "alsa_output.pci", label: "Built-in Audio", direction: .output),
    ]
    #expect(devices.chosen(nil, .input)?.name == "alsa_input.pci")
    #expect(devices.chosen("yeti", .input)?.name == "alsa_input.usb-Yeti")
    #expect(devices.chosen("built-in", .input)?.name == "alsa_input.pci")
    #expect(devices.chosen("alsa_input", .input) == nil)
    #expect(devices.chosen("monitor", .input)?.name == "alsa_output.pci.monitor")
    #expect(devices.chosen("alsa_output.pci.monitor", .input)?.isMonitor == true)
    #expect(devices.chosen("nothing", .input) == nil)
    #expect(devices.chosen(nil, .output)?.name == "alsa_output.pci")
    // With a monitor as the only input, or as the default one, there is no microphone.
    #expect([input("m", "M", isDefault: true, isMonitor: true)].chosen(nil, .input) == nil)
  }

  @Test("cues are short, quiet, different, and begin and end in silence", arguments: Cue.allCases)
  func cues(_ cue: Cue) {
    let sound = cue.sound()
    #expect(sound.duration < .milliseconds(500) && sound.duration > .milliseconds(100))
    let level = Level(sound.samples)
    #expect(level.peak <= 0.25 && level.rms > 0.05)
    #expect(abs(sound.samples.first!) < 0.01 && abs(sound.samples.last!) < 0.01)
    #expect(Cue.allCases.filter { $0.sound() == sound } == [cue])
  }

  @Test("a library that is not there is an absence with its name and the linker's reason")
  func absentLibrary() {
    do throws(SharedLibrary.Absence) {
      _ = try SharedLibrary("libno-such-sound.so.7", "libno-such-sound.so.6")
      Issue.record("it was opened")
    } catch {
      #expect(error.library == "libno-such-sound.so.7")
      #expect(error.reason.contains("libno-such-sound"))
    }
  }
}
