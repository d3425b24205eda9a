import Audio
import Camera
import Configuration
import System

extension CameraSettings {
  /// As the settings want it. A source with neither a program nor a file is left out, and said.
  init(_ settings: Settings) {
    self.init(
      device: settings.camera.deviceOrDefault.isEmpty ? nil : settings.camera.deviceOrDefault,
      warm: .seconds(settings.camera.warmOrDefault), led: settings.camera.ledOrDefault,
      prefersHardwareEncoder: settings.camera.encoderOrDefault == .hardware)
    for name in settings.cameraSources.names {
      let section = settings.cameraSources[name]
      if !section.fileOrDefault.isEmpty {
        sources.append(
          Source(name: name, kind: .recording(path: section.fileOrDefault, rate: section.rateOrDefault)))
      } else if !section.commandOrDefault.isEmpty {
        sources.append(
          Source(name: name, kind: .program(still: section.commandOrDefault, video: section.videoOrDefault)))
      } else {
        Log.once(
          "camera.source.\(name)", .warning,
          "[camera.source.\(name)] has neither a command nor a file, so there is no such camera.")
      }
    }
  }
}

/// What makes clips: a process of its own for each.
enum ClipWriters {
  static func maker(_ loop: EventLoop) -> @Sendable () throws(CameraError) -> any ClipWriter {
    { () throws(CameraError) in
      try check()
      return EncoderProcess(loop: loop)
    }
  }

  /// Throws `missing` when the encoder is not installed.
  static func check() throws(CameraError) {
    if EncoderProcess.installedProgram() != nil { return }
    throw EncoderProcess.notInstalled
  }
}
