import Audio
import Camera
import System

/// A clip's sound from the microphone, by lease: somebody who talks has it, and is not listened in to.
public final class MicrophoneSound: ClipSound {
  public let format = Camera.ClipFormat.Audio(sampleRate: 48_000, channels: 1)
  private let lease: MicrophoneLease
  private let capture: Capture
  private let chunks: Chunks

  /// Takes the microphone and opens it. Throws `microphoneBusy`, `microphoneNotPermitted`, or `soundFailed` when there is none.
  public static func opened(_ sound: SoundSystem?) async throws(CameraError) -> MicrophoneSound {
    guard let sound else { throw CameraError(.soundFailed, "Sound is not set up.") }
    do throws(AudioError) {
      let lease = try await sound.microphone.lease(for: "a camera clip")
      do throws(AudioError) {
        return MicrophoneSound(lease, try await lease.capture(Capture.Options(rate: 48_000)))
      } catch {
        await lease.release()
        throw error
      }
    } catch {
      let code: CameraError.Code =
        switch error.code {
        case .microphoneBusy, .deviceBusy: .microphoneBusy
        case .notPermitted: .microphoneNotPermitted
        default: .soundFailed
        }
      throw CameraError(code, error.summary, remedy: error.remedy)
    }
  }

  private init(_ lease: MicrophoneLease, _ capture: Capture) {
    self.lease = lease
    self.capture = capture
    chunks = Chunks(capture)
  }

  public func begin() async throws(CameraError) {}
  public func next() async -> (samples: [Int16], atNs: UInt64)? { await chunks.next() }
  public func end() async { await lease.release() }

  /// The capture's reader, which is a value that changes.
  private actor Chunks {
    private var iterator: Capture.Iterator
    init(_ capture: Capture) { iterator = capture.makeAsyncIterator() }

    func next() async -> (samples: [Int16], atNs: UInt64)? {
      var reader = iterator
      // A microphone that is lost in the middle ends the sound, and silence takes its place.
      while let event = try? await reader.next() {
        iterator = reader
        guard case .chunk(let chunk) = event else { continue }
        return (chunk.samples.map(Int16.init(sample:)), UInt64(max(0, chunk.at.milliseconds) * 1e6))
      }
      return nil
    }
  }
}
