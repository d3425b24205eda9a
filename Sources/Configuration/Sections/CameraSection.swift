import System

/// `[camera]`
public struct CameraSection: SettingsSection {
  public static let name = "camera"
  public static let summary = "Pictures and clips. `talknode camera list` shows what cameras there are."

  public enum Encoder: Sendable, Equatable { case software, hardware }

  public var device: String?
  public var deviceOrDefault: String { device ?? "" }

  /// In seconds.
  public var warm: Int?
  public var warmOrDefault: Int { warm ?? 0 }

  public var led: [String]?
  public var ledOrDefault: [String] { led ?? [] }

  public var encoder: Encoder?
  public var encoderOrDefault: Encoder { encoder ?? .software }

  public static let settings: [Setting<Self>] = [
    .text(
      "device", \.device, default: \.deviceOrDefault, length: 0...256, example: "HD Webcam",
      "The camera for whoever names none: an id from `talknode camera list`, or a part of a name that fits one only."),
    .integer(
      "warm", \.warm, default: \.warmOrDefault, range: 0...600, unit: "seconds",
      """
      How long a camera goes on streaming after its last use. The next picture is then taken at once; until then the camera \
      is on, and its light too.
      """),
    .list(
      "led", \.led, default: \.ledOrDefault, count: 0...16, of: "strings: the program and its arguments",
      example: ["/usr/local/bin/camera-light"],
      "A sign that a camera streams, beside the one of [signs]: a program that is run with `on` and with `off` as its last word."
    ),
    .choice(
      "encoder", \.encoder, default: \.encoderOrDefault, of: ["software": .software, "hardware": .hardware],
      "What makes clips. `hardware`: the machine's own encoder (v4l2m2m), and software where that fails."),
  ]

  public init() {}
}

/// `[camera.source.NAME]`
public struct CameraSourceSection: SettingsSection {
  public static let name = "camera.source"
  public static let summary = """
    A camera that is no V4L2 device, under a name of your own: a program that writes JPEGs (for a Raspberry Pi's camera see \
    share/talknode/recipes/raspberry-pi-camera.toml), or a recording.
    """

  public var command: [String]?
  public var commandOrDefault: [String] { command ?? [] }
  public var video: [String]?
  public var videoOrDefault: [String] { video ?? [] }
  public var file: String?
  public var fileOrDefault: String { file ?? "" }
  /// In frames a second.
  public var rate: Double?
  public var rateOrDefault: Double { rate ?? 15 }

  public static let settings: [Setting<Self>] = [
    .list(
      "command", \.command, default: \.commandOrDefault, count: 1...64, of: "strings: the program and its arguments",
      example: ["rpicam-still", "--nopreview", "--immediate", "--encoding", "jpg", "--output", "-"],
      "Takes a picture: writes one JPEG to its standard output and ends."),
    .list(
      "video", \.video, default: \.videoOrDefault, count: 1...64, of: "strings: the program and its arguments",
      example: ["rpicam-vid", "--nopreview", "--timeout", "0", "--codec", "mjpeg", "--output", "-"],
      "Films, for clips: writes JPEGs one after the other to its standard output until it is ended."),
    .text(
      "file", \.file, default: \.fileOrDefault, length: 0...1024, example: "/var/lib/talknode/street.mjpeg",
      "A recording in place of a program: a file of JPEGs one after the other, or a folder of .jpg files. It begins anew at its end, and a command beside it is not used."
    ),
    .number(
      "rate", \.rate, default: \.rateOrDefault, range: 0.1...120, unit: "frames a second",
      "How fast a recording is played."),
  ]

  public init() {}
}
