import Audio
import Camera
import GatewayProtocol
import NodeKit
import System

/// CameraModule: `camera.list`, `camera.snap`, `camera.clip` and `camera.ptz.status|control` for agents (node-commands §3): their params,
/// payloads and error codes. What a camera is, `Camera` knows.
public struct CameraModule: CapabilityModule {
  public static let consent = Consent(
    name: "camera",
    allows:
      "Agents may take pictures and clips, with sound, by this machine's cameras, and turn them; each time is shown.",
    refusalCode: "CAMERA_DISABLED")

  public let capability: Capability = "camera"
  public let permissions = ["camera"]
  let cameras: Cameras
  let sound: SoundSystem?
  let makeWriter: @Sendable () throws(CameraError) -> any ClipWriter

  /// `sound`: whose microphone clips are heard with; nil makes silent ones. `clipWriter` makes the writer of one clip, or says why it can't.
  public init(
    cameras: Cameras, sound: SoundSystem?, clipWriter: @escaping @Sendable () throws(CameraError) -> any ClipWriter
  ) {
    self.cameras = cameras
    self.sound = sound
    makeWriter = clipWriter
  }

  public let commands = [
    Command(
      "camera.list", summary: "Lists the cameras.", gatewayDefault: .needsAllow, consent: Self.consent, isShown: false,
      limit: .seconds(15)),
    Command("camera.snap", summary: "Takes a picture.", gatewayDefault: .dangerous, consent: Self.consent),
    Command(
      "camera.clip", summary: "Takes a clip of at most 60 s, with sound.", gatewayDefault: .dangerous,
      consent: Self.consent, limit: .seconds(120)),
    Command(
      "camera.ptz.status", summary: "Tells where a camera looks and how far it can be turned.",
      gatewayDefault: .needsAllow, consent: Self.consent, isShown: false, limit: .seconds(15)),
    Command(
      "camera.ptz.control", summary: "Turns or zooms a camera.", gatewayDefault: .dangerous, consent: Self.consent,
      limit: .seconds(15)),
  ]

  public func availability() async -> Availability {
    do throws(CameraError) {
      _ = try await cameras.device(nil)
      try cameras.check()
      return .ready
    } catch {
      return .absent(reason: error.summary, remedy: error.remedy)
    }
  }

  public func stop() async { await cameras.close() }

  public func handle(_ invocation: Invocation) async throws(CommandError) -> Payload {
    do {
      switch invocation.command {
      case "camera.list": return .json(Self.json(try await list()))
      case "camera.snap": return try await snap(SnapParams(invocation.lenientParams), invocation)
      case "camera.clip": return try await clip(ClipParams(invocation.lenientParams), invocation)
      case "camera.ptz.status":
        let device = try await cameras.device(try PTZParams.deviceID(invocation.requiredParams()))
        return .json(PTZParams.json(try await cameras.ptz(of: device)))
      default:
        let params = try PTZParams(invocation.requiredParams())
        let device = try await cameras.device(params.deviceID)
        let (state, adjusted) = try await cameras.turn(device, params.command)
        return .json(PTZParams.json(state, adjusted: adjusted))
      }
    } catch let error as CameraError {
      throw Self.failure(error)
    } catch let error as CommandError {
      throw error
    } catch {
      throw .unavailable("\(error)")
    }
  }

  private func list() async throws(CameraError) -> [CameraDevice] {
    let findings = try await cameras.find()
    // No camera at all is an empty list; cameras that may not be opened, or do not answer, are something to be told.
    if findings.devices.isEmpty && !(findings.denied.isEmpty && findings.stuck.isEmpty) { throw findings.absence }
    return findings.devices
  }

  static func json(_ devices: [CameraDevice]) -> JSON {
    [
      "devices": .array(
        devices.map { device in
          [
            "id": .string(device.id), "name": .string(device.name), "position": "unknown",
            "deviceType": .string(device.kind),
          ]
        })
    ]
  }

  /// How an error reads on the wire (node-commands §3.5).
  static func failure(_ error: CameraError) -> CommandError {
    let symbol: String =
      switch error.code {
      case .unknownCamera: "INVALID_REQUEST"
      case .notPermitted: "CAMERA_PERMISSION_REQUIRED"
      case .busy: "CAMERA_BUSY"
      case .tooLarge: "PAYLOAD_TOO_LARGE"
      case .microphoneBusy: "MIC_BUSY"
      case .microphoneNotPermitted: "MIC_PERMISSION_REQUIRED"
      case .ptzUnsupported: "CAMERA_PTZ_UNSUPPORTED"
      case .ptzAxisUnsupported: "CAMERA_PTZ_AXIS_UNSUPPORTED"
      case .ptzPartial: "CAMERA_PTZ_PARTIAL"
      default: "CAMERA_UNAVAILABLE"
      }
    return CommandError(symbol, error.summary, remedy: error.remedy)
  }
}
