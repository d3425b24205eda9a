import Camera
import Configuration
import System

extension DoctorCommand {
  /// Each camera, what may not be opened, and what is missing for pictures and clips. Nothing is opened longer than to be asked its name.
  static func cameras(_ settings: Settings, _ loop: EventLoop) async -> [Finding] {
    let cameras = Cameras(settings: CameraSettings(settings), loop: loop)
    var findings: [Finding] = []
    do throws(CameraError) {
      let found = try await cameras.find()
      for device in found.devices {
        findings.append(Finding(.ok, "camera", "\(device.name) (\(device.kind), \(device.node ?? device.id))"))
      }
      if let node = found.denied.first {
        let refusal = CameraList.notPermitted(node)
        findings.append(Finding(.problem, "camera", refusal.summary, remedy: refusal.remedy))
      }
      for node in found.stuck {
        let refusal = CameraList.stuck(node)
        findings.append(Finding(.problem, "camera", refusal.summary, remedy: refusal.remedy))
      }
      if let node = found.needingLibcamera.first, found.devices.isEmpty {
        findings.append(
          Finding(
            .note, "camera", "\(node) is a sensor that needs libcamera.",
            remedy: "Set [camera.source.NAME] as in share/talknode/recipes/raspberry-pi-camera.toml."))
      }
      if !found.devices.isEmpty { _ = try found.device(settings.camera.device, isPreference: true) }
    } catch {
      findings.append(Finding(.problem, "camera", error.summary, remedy: error.remedy))
    }
    do throws(CameraError) { try cameras.check() } catch {
      findings.append(Finding(.note, "pictures", error.summary, remedy: error.remedy))
    }
    do throws(CameraError) { try ClipWriters.check() } catch {
      findings.append(Finding(.note, "clips", error.summary, remedy: error.remedy))
    }
    return findings
  }
}
