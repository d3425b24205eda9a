import Camera
import Crypto
import GatewayProtocol
import NodeKit
import System

/// The params of `camera.snap` (node-commands §3.2). What is out of bounds is clamped, what has a wrong type counts as absent; `facing` is
/// ignored, for a Linux camera looks nowhere in particular.
struct SnapParams: Sendable, Equatable {
  /// The requested spelling: `jpg` or `jpeg`.
  var format: String
  var deviceID: String?
  var width: Int
  var quality: Double
  var delay: Duration?

  init(_ json: JSON) throws(CommandError) {
    format = json["format"]?.string ?? "jpg"
    guard format == "jpg" || format == "jpeg" else { throw .invalidRequest("format must be jpg or jpeg") }
    deviceID = try Self.deviceID(json)
    let width = json["maxWidth"]?.double ?? 0
    self.width = width > 0 ? Int(max(2, min(width.rounded(.down), 16_384))) : 1600
    let quality = json["quality"]?.double ?? 0.9
    self.quality = max(0.05, min(quality, 1))
    delay = json["delayMs"]?.double.map { .milliseconds(Int64(max(0, min($0, 10_000)))) }
  }

  /// An id has to be a text; an empty one counts as none.
  static func deviceID(_ json: JSON) throws(CommandError) -> String? {
    guard let value = json["deviceId"], !value.isNull else { return nil }
    guard let text = value.string else { throw .invalidRequest("deviceId must be a string") }
    return text.trimmed.isEmpty ? nil : text.trimmed
  }
}

/// The params of `camera.clip` (node-commands §3.3).
struct ClipParams: Sendable, Equatable {
  var deviceID: String?
  var milliseconds: Int64
  var includesAudio: Bool

  init(_ json: JSON) throws(CommandError) {
    let format = json["format"]?.string ?? "mp4"
    guard format == "mp4" else { throw .invalidRequest("format must be mp4") }
    deviceID = try SnapParams.deviceID(json)
    let duration = json["durationMs"]?.double ?? 3000
    milliseconds = Int64(max(250, min(duration.rounded(.down), 60_000)))
    includesAudio = json["includeAudio"]?.bool ?? true
  }
}

extension CameraModule {
  /// Time that is left for the answer itself.
  private static let margin: Duration = .milliseconds(300)
  /// A payload's other members and the frame around it (node-commands §15.2).
  private static let envelope = 65_536

  private func limit(_ invocation: Invocation) -> Duration {
    max(.milliseconds(200), invocation.deadline - Monotonic.now() - Self.margin)
  }

  /// The raw bytes whose base64 the caller's link takes.
  private func room(_ invocation: Invocation) -> Int { max(0, invocation.payloadLimit - Self.envelope) / 4 * 3 }

  func snap(_ params: SnapParams, _ invocation: Invocation) async throws(CameraError) -> Payload {
    let limits = Picture.Limits(
      width: params.width, quality: params.quality, bytes: min(Picture.Limits.wireBytes, room(invocation)))
    let picture = try await cameras.snap(
      SnapRequest(device: params.deviceID, limits: limits, delay: params.delay, limit: limit(invocation)))
    return await Self.payload(
      picture.bytes, #"{"format":"\#(params.format)","#,
      #","width":\#(picture.size.width),"height":\#(picture.size.height)}"#)
  }

  func clip(_ params: ClipParams, _ invocation: Invocation) async throws -> Payload {
    let duration = Duration.milliseconds(params.milliseconds)
    let left = limit(invocation)
    guard left > duration + .seconds(1) else {
      throw CommandError.invalidRequest(
        "a clip of \(params.milliseconds) ms does not fit the \(Int(left.inSeconds)) s that the caller waits: give a longer timeoutMs"
      )
    }
    let writer = try makeWriter()
    var problem: CameraError?
    var clipSound: MicrophoneSound?
    if params.includesAudio {
      do throws(CameraError) { clipSound = try await MicrophoneSound.opened(sound) } catch {
        // Somebody else's microphone and a refused one are errors; none at all makes a silent clip, which says so.
        guard error.code == .soundFailed else { throw error }
        problem = error
      }
    }
    let clip = try await cameras.clip(
      ClipRequest(
        device: params.deviceID, duration: duration, maxBytes: min(ClipRequest.wireBytes, room(invocation)),
        limit: left - duration), to: writer, sound: clipSound)
    let note = problem.map { #","note":\#(JSON.string("The clip is silent: \($0.summary)").text)"# } ?? ""
    return await Self.payload(
      clip.bytes, #"{"format":"mp4","#,
      #","durationMs":\#(params.milliseconds),"hasAudio":\#(clip.hasSound)\#(note)}"#)
  }

  /// JSON text around base64, made away from the loop: it can be 25 MB.
  @concurrent
  private static func payload(_ bytes: [UInt8], _ head: String, _ tail: String) async -> Payload {
    var text = Array(head.utf8)
    text.reserveCapacity(head.utf8.count + (bytes.count + 2) / 3 * 4 + tail.utf8.count + 16)
    text += #""base64":""#.utf8
    text += Base64.encode(bytes).utf8
    text.append(UInt8(ascii: "\""))
    text += tail.utf8
    return .encoded(text)
  }
}
