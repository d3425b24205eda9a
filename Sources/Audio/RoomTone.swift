import System

/// Faint noise in the microphone of a private sound server, such as every room has.
///
/// Without it that microphone gives nothing but zeros until somebody speaks. Those are a muted microphone's, which is opened anew after a
/// second, and a first word that falls into this is lost.
public final class RoomTone: Sendable {
  private let sound: SoundSystem
  private let playing: Task<Void, Never>

  private static let rate = 16_000
  /// Four steps of 16 bits: over zero, and far below any voice.
  private static let amplitude: Float = 4 / 32768

  /// Begins, at the server's sink `mic_in`. Throws what opening a speaker throws.
  public init(at address: String) async throws(AudioError) {
    sound = SoundSystem(AudioSettings(backend: .pulse, output: "mic_in", server: address, preRoll: .zero))
    let lease = try await sound.speaker.lease(for: "a quiet room")
    let playback = try await lease.open(rate: Self.rate)
    let noise = Self.noise()
    try await playback.write(noise)
    playing = Task {
      // Until `end()`, or the end of the server.
      while !Task.isCancelled, (try? await playback.write(noise)) != nil {}
      await lease.release()
    }
  }

  /// Returns when it is silent.
  public func end() async {
    playing.cancel()
    await playing.value
    await sound.close()
  }

  /// A fifth of a second, the same each time.
  private static func noise() -> [Float] {
    var state: UInt32 = 2_463_534_242
    return (0..<(rate / 5)).map { _ in
      state ^= state << 13
      state ^= state >> 17
      state ^= state << 5
      return (Float(state >> 8) / Float(1 << 23) - 1) * amplitude
    }
  }
}
