/// Why sound could not be had, and what a person can do about it.
public struct AudioError: Error, Sendable, Equatable, CustomStringConvertible {
  /// Stable words for programs. An open set.
  public struct Code: RawRepresentable, Sendable, Hashable {
    public let rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }

    /// Someone else in this program holds the microphone.
    public static let microphoneBusy = Code(rawValue: "MIC_BUSY")
    /// Someone else in this program holds the speaker.
    public static let speakerBusy = Code(rawValue: "SPEAKER_BUSY")
    /// Another program holds the device.
    public static let deviceBusy = Code(rawValue: "DEVICE_BUSY")
    /// There is no such device, or none at all.
    public static let deviceNotFound = Code(rawValue: "DEVICE_NOT_FOUND")
    /// The device was there and went away, and did not come back in time.
    public static let deviceLost = Code(rawValue: "DEVICE_LOST")
    /// The device, its driver or its server does not answer.
    public static let deviceStuck = Code(rawValue: "DEVICE_STUCK")
    /// The device refused what was asked for every way it was asked.
    public static let deviceRefused = Code(rawValue: "DEVICE_REFUSED")
    /// No permission for the device.
    public static let notPermitted = Code(rawValue: "NOT_PERMITTED")
    /// No sound server answers.
    public static let serverUnavailable = Code(rawValue: "SERVER_UNAVAILABLE")
    /// A library is not installed, or is too old.
    public static let libraryMissing = Code(rawValue: "LIBRARY_MISSING")
    /// The bytes are no sound file that can be read here.
    public static let formatUnsupported = Code(rawValue: "FORMAT_UNSUPPORTED")
    /// Samples without a header and without a known rate.
    public static let formatHeaderless = Code(rawValue: "FORMAT_HEADERLESS")
    /// The sound is damaged.
    public static let damaged = Code(rawValue: "DAMAGED")
    /// The sound is larger or longer than is accepted.
    public static let tooLong = Code(rawValue: "TOO_LONG")
    /// It was stopped before it ended.
    public static let stopped = Code(rawValue: "STOPPED")
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
