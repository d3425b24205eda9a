import Camera
import Crypto
import GatewayProtocol
import NodeKit
import System

/// Pictures and a clip from the bundled recording, through everything a camera's frames go through; with --live from the real camera. Both
/// are left in --out.
struct CameraDemonstration: Demonstration {
  let capability: Capability = "camera"
  private static let name = "room"
  /// The camera that is shown; its own id, which turning has to name.
  private let device = Lock(Self.name)

  func prepare(_ stage: Stage) async throws(Skip) {
    if stage.isLive {
      do throws(CameraError) {
        let loop = EventLoop(name: "camera")
        defer { loop.stop() }
        let found = try await Cameras(settings: CameraSettings(), loop: loop).device(nil)
        device.withLock { $0 = found.id }
      } catch {
        throw Skip(reason: error.summary, remedy: error.remedy)
      }
      return
    }
    guard let folder = Samples.folder("camera"), Files.exists(folder + "/room.mjpeg") else {
      throw Skip(reason: "The recording is not beside the program.", remedy: "make demo, in the source folder")
    }
    await stage.configure { settings in
      settings.cameraSources[Self.name].file = folder + "/room.mjpeg"
      settings.cameraSources[Self.name].rate = 15
      settings.camera.device = Self.name
    }
  }

  func steps(_ stage: Stage) -> [DemoStep] {
    let source: DemoStep.Source = stage.isLive ? .live : .sample
    let out = stage.out
    let id = JSON.string(device.withLock { $0 })
    return [
      DemoStep("camera.list", source: source) { payload throws(DemoStep.Flaw) in
        guard let devices = payload["devices"]?.array, !devices.isEmpty else {
          throw DemoStep.Flaw(sentence: "The list is empty.")
        }
        return devices.compactMap { $0["name"]?.string }.joined(separator: ", ")
      },
      DemoStep("camera.snap", params: ["maxWidth": 640], source: source) { payload throws(DemoStep.Flaw) in
        guard let width = payload["width"]?.int, let height = payload["height"]?.int else {
          throw DemoStep.Flaw(sentence: "The answer lacks the size.")
        }
        let bytes = try Self.media(payload, begins: [0xFF, 0xD8, 0xFF])
        return "\(width)×\(height), \(bytes.count) bytes" + Self.keep(bytes, out, "camera.snap.jpg")
      },
      DemoStep("camera.clip", params: ["durationMs": 2000], source: source) {
        payload throws(DemoStep.Flaw) in
        let bytes = try Self.media(payload, begins: [0, 0, 0])
        guard bytes.count > 12, Array(bytes[4..<8]) == Array("ftyp".utf8) else {
          throw DemoStep.Flaw(sentence: "The clip is no MP4.")
        }
        let sound = payload["hasAudio"]?.bool == true ? "with sound" : "silent"
        return "\(payload["durationMs"]?.int ?? 0) ms, \(sound), \(bytes.count) bytes"
          + Self.keep(bytes, out, "camera.clip.mp4")
      },
      // What can't be turned says so, which is no failure.
      DemoStep("camera.ptz.status", params: ["deviceId": id], source: source, lacks: ["CAMERA_PTZ_UNSUPPORTED"]),
      DemoStep(
        "camera.ptz.control", params: ["deviceId": id, "operation": "home"], source: source,
        lacks: ["CAMERA_PTZ_UNSUPPORTED"]),
    ]
  }

  private static func media(_ payload: JSON, begins: [UInt8]) throws(DemoStep.Flaw) -> [UInt8] {
    guard let bytes = payload["base64"]?.string.flatMap({ Base64.decode($0) }), bytes.starts(with: begins) else {
      throw DemoStep.Flaw(sentence: "The answer holds no picture or clip.")
    }
    return bytes
  }

  private static func keep(_ bytes: [UInt8], _ out: String?, _ name: String) -> String {
    guard let out else { return "" }
    do {
      try Files.writeAtomically(bytes, to: out + "/" + name, mode: 0o644)
      return ", in \(out)/\(name)"
    } catch {
      return ", which can't be written: \(error)"
    }
  }
}
