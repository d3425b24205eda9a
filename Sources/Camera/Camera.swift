import System

/// Camera: pictures and frames from this machine's cameras, through V4L2 (USB cameras and whatever else streams), from a program that
/// writes JPEGs (CSI sensors that need libcamera), or from a recording.
///
/// `Cameras` is the owner: it lists, takes pictures (`snap`) and clips (`clip`), and turns cameras (`turn`). Each camera has one feed, which
/// opens it for the first who asks, shares its frames with everybody else, and closes it after the last. What is done to pixels is
/// pure and lies in `Picture` and `JPEG`; what is decided (format, exposure, sharing, shrinking) is a value.
///
/// Nothing here knows a gateway or a command. libjpeg-turbo and libv4lconvert are opened on first use; one that is missing is a
/// `CameraError` with the package to install.

/// What a person may choose about cameras.
public struct CameraSettings: Sendable, Equatable {
  /// The camera for who names none: an id or a part of a name that fits one only. nil = the first of the list.
  public var device: String?
  /// How long a camera goes on streaming after its last use, so that the next picture need not wait for it.
  public var warm: Duration
  /// A program that is told `on` and `off` (as its last argument) when a camera begins and ends to stream. Empty = none.
  public var led: [String]
  /// Cameras that are no V4L2 devices.
  public var sources: [Source]
  /// Whether clips are to be encoded in hardware, where there is some.
  public var prefersHardwareEncoder: Bool

  /// A camera that is configured rather than found.
  public struct Source: Sendable, Equatable {
    public enum Kind: Sendable, Equatable {
      /// A file of JPEGs one after the other (MJPEG), or a folder of `.jpg` files in the order of their names; played again and again.
      case recording(path: String, rate: Double)
      /// `still` writes one JPEG to its standard output and ends; `video`, where there is one, writes JPEGs until it is ended.
      case program(still: [String], video: [String])
    }
    /// Its id, and its name for a person.
    public var name: String
    public var kind: Kind
    public init(name: String, kind: Kind) {
      self.name = name
      self.kind = kind
    }
  }

  public init(
    device: String? = nil, warm: Duration = .zero, led: [String] = [], sources: [Source] = [],
    prefersHardwareEncoder: Bool = false
  ) {
    self.device = device
    self.warm = warm
    self.led = led
    self.sources = sources
    self.prefersHardwareEncoder = prefersHardwareEncoder
  }
}

/// Where the machine's devices are: another root for tests.
public struct CameraPlaces: Sendable, Equatable {
  public var dev: String
  public var proc: String
  public init(dev: String = "/dev", proc: String = "/proc") {
    self.dev = dev
    self.proc = proc
  }
}
