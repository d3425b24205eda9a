import Audio
import System
import Testing

@Suite("Capture from a PulseAudio server", .serialized)
struct PulseCaptureTests {
  @Test("a tone played into the microphone is heard at the rate that was asked for, in exact chunks")
  func tone() async throws {
    let server = try await TestServer()
    let tone = try await server.playTone()
    defer { tone.end() }
    let sound = server.system()
    let lease = try await sound.microphone.lease(for: "a test")
    let capture = try await lease.capture(.init(rate: 24_000))
    #expect(capture.device.name == "microphone")
    #expect(capture.format.rate == 16_000)
    let listener = Listener(capture)
    try await eventually("a second of tone") { listener.now.nonZero > 24_000 }
    await capture.stop()
    let heard = await listener.whole()
    #expect(heard.error == nil)
    #expect(heard.chunks.dropLast().allSatisfy { $0.samples.count == 480 })
    var position = 0
    for chunk in heard.chunks {
      #expect(chunk.position == position)
      position += chunk.samples.count
    }
    let loud = PCM(Array(heard.samples.suffix(20_000)), rate: 24_000)
    #expect(abs(loud.hertz - 440) < 3)
    #expect(abs(loud.amplitude - 0.5) < 0.03)
    await lease.release()
    await sound.close()
  }

  @Test("a question asked at any moment is answered, also of a connection that had fallen silent")
  func promptness() async throws {
    let server = try await TestServer()
    let backend = PulseBackend(server: server.address)
    // Each one wakes libpulse's thread as it is about to wait. A question that is not noticed then fails after three seconds.
    for _ in 0..<2000 { _ = try await backend.probe() }
    await backend.close()
  }
}
