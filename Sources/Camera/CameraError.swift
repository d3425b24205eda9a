/// Why a picture could not be had, and what a person can do about it.
public struct CameraError: Error, Sendable, Equatable, CustomStringConvertible {
  /// Stable words for programs. An open set.
  public struct Code: RawRepresentable, Sendable, Hashable {
    public let rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }

    /// There is no camera at all.
    public static let noCamera = Code(rawValue: "NO_CAMERA")
    /// There is no camera with the id that was asked for.
    public static let unknownCamera = Code(rawValue: "UNKNOWN_CAMERA")
    /// The camera that the settings name is not there, or they fit several.
    public static let preferenceAbsent = Code(rawValue: "PREFERENCE_ABSENT")
    /// The user may not open the device.
    public static let notPermitted = Code(rawValue: "NOT_PERMITTED")
    /// Another program holds the camera.
    public static let busy = Code(rawValue: "BUSY")
    /// The camera was there and is gone.
    public static let unplugged = Code(rawValue: "UNPLUGGED")
    /// The camera refused what was asked for every way it was asked.
    public static let refused = Code(rawValue: "REFUSED")
    /// The camera, its driver or its program does not answer, or delivers no frame.
    public static let stuck = Code(rawValue: "STUCK")
    /// Frames come, but none that can be used.
    public static let damaged = Code(rawValue: "DAMAGED")
    /// Nothing the camera offers can be read here.
    public static let formatUnsupported = Code(rawValue: "FORMAT_UNSUPPORTED")
    /// A library or a program is not installed, or is too old.
    public static let missing = Code(rawValue: "MISSING")
    /// The picture or clip is larger than is accepted, however it is made smaller.
    public static let tooLarge = Code(rawValue: "TOO_LARGE")
    /// The file or program of a configured source gives no pictures.
    public static let sourceFailed = Code(rawValue: "SOURCE_FAILED")
    /// The time that was given is over.
    public static let timedOut = Code(rawValue: "TIMED_OUT")
    /// It was stopped before it ended.
    public static let stopped = Code(rawValue: "STOPPED")
    /// The clip could not be written.
    public static let encodingFailed = Code(rawValue: "ENCODING_FAILED")
    /// The sound for a clip could not be had; the summary is the microphone's.
    public static let soundFailed = Code(rawValue: "SOUND_FAILED")
    /// Somebody else in this program holds the microphone.
    public static let microphoneBusy = Code(rawValue: "MICROPHONE_BUSY")
    /// The user may not use the microphone.
    public static let microphoneNotPermitted = Code(rawValue: "MICROPHONE_NOT_PERMITTED")
    /// The camera can't be turned or zoomed at all.
    public static let ptzUnsupported = Code(rawValue: "PTZ_UNSUPPORTED")
    /// The camera has no such axis, or can't move it that way.
    public static let ptzAxisUnsupported = Code(rawValue: "PTZ_AXIS_UNSUPPORTED")
    /// Some axes moved and others did not.
    public static let ptzPartial = Code(rawValue: "PTZ_PARTIAL")
  }

  public let code: Code
  /// One sentence for a person.
  public let summary: String
  /// What to do next, as a command where there is one.
  public let remedy: String?

  public init(_ code: Code, _ summary: String, remedy: String? = nil) {
    self.code = code
    self.summary = summary
    self.remedy = remedy
  }

  public var description: String { "\(code.rawValue): \(summary)" + (remedy.map { " \($0)" } ?? "") }
}

extension CameraError {
  /// For who is cancelled.
  static let pictureUnwanted = CameraError(.stopped, "The picture is not wanted any more.")
  static let clipUnwanted = CameraError(.stopped, "The clip is not wanted any more.")
}
