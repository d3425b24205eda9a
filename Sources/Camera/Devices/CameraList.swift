import Glibc
import System

/// Looks for cameras: V4L2 nodes that capture and stream, then the configured sources.
///
/// Asked anew each time, so that what is plugged in is there without more ado; 16 nodes take a few milliseconds.
public struct CameraList: Sendable {
  public let places: CameraPlaces
  public let sources: [CameraSettings.Source]

  public init(places: CameraPlaces = CameraPlaces(), sources: [CameraSettings.Source] = []) {
    self.places = places
    self.sources = sources
  }

  /// What was found.
  public struct Findings: Sendable, Equatable {
    /// In the order of the nodes' numbers; configured sources last.
    public var devices: [CameraDevice] = []
    /// Nodes that this user may not open.
    public var denied: [String] = []
    /// The ids that those would have.
    var deniedIDs: Set<String> = []
    /// Nodes of CSI sensors, which a program has to read.
    public var needingLibcamera: [String] = []

    public init() {}
  }

  /// Looks. Blocks while drivers are asked: for a thread that may.
  public func find() -> Findings {
    var findings = Findings()
    let links = stableLinks()
    for node in nodes() {
      let device: V4L2Device
      do throws(CameraError) { device = try V4L2Device(node, places: places) } catch {
        if error.code == .notPermitted {
          findings.denied.append(node)
          findings.deniedIDs.insert(links[node] ?? node)
        }
        continue
      }
      guard let facts = device.facts() else { continue }
      switch facts.verdict {
      case .noCamera: continue
      case .needsLibcamera: findings.needingLibcamera.append(node)
      case .camera:
        // A node that offers no format has nothing to show: the second node of a device, a receiver without a signal.
        if device.formats().isEmpty { continue }
        findings.devices.append(
          CameraDevice(
            id: links[node] ?? node, name: facts.card.isEmpty ? node : facts.card,
            origin: .v4l2(node: node, driver: facts.driver)))
      }
    }
    for source in sources {
      let origin: CameraDevice.Origin = if case .recording = source.kind { .recording } else { .program }
      findings.devices.append(CameraDevice(id: source.name, name: source.name, origin: origin))
    }
    return findings
  }

  /// Why a node that may not be opened gives nothing, and the command that changes it.
  public static func notPermitted(_ node: String) -> CameraError { V4L2Device.notPermitted(node) }

  /// The `videoN` nodes by number.
  func nodes() -> [String] {
    Files.list(places.dev)
      .compactMap { name in name.hasPrefix("video") ? Int(name.dropFirst(5)).map { (number: $0, name: name) } : nil }
      .sorted { $0.number < $1.number }
      .map { "\(places.dev)/\($0.name)" }
  }

  /// For each node the best of its links: by-id names the very camera, by-path the socket it is in.
  private func stableLinks() -> [String: String] {
    var links: [String: String] = [:]
    for folder in ["by-path", "by-id"] {
      for name in Files.list("\(places.dev)/v4l/\(folder)") {
        let link = "\(places.dev)/v4l/\(folder)/\(name)"
        guard let target = realpath(link, nil) else { continue }
        links[String(cString: target)] = link
        free(target)
      }
    }
    return links
  }
}

extension CameraList.Findings {
  /// The camera with this id, node or name; the first one for nil. Throws `noCamera`, `notPermitted` or `unknownCamera`.
  /// One that the settings name, rather than a caller, may be a part of one name, and is `preferenceAbsent` when it is none or fits several.
  public func device(_ id: String?, isPreference: Bool = false) throws(CameraError) -> CameraDevice {
    guard let id else {
      if let first = devices.first { return first }
      throw absence
    }
    if let exact = devices.first(where: { $0.id == id || $0.node == id }) { return exact }
    // What a person wrote into the settings may be a part of the name; what a caller names is an id.
    let named = isPreference ? devices.filter { $0.name.lowercased().contains(id.lowercased()) } : []
    if named.count == 1 { return named[0] }
    if denied.contains(id) || deniedIDs.contains(id) { throw CameraList.notPermitted(id) }
    if devices.isEmpty { throw absence }
    // Who named no camera did not name a wrong one: that the settings' one is missing is this machine's affair.
    if isPreference {
      let what =
        named.isEmpty ? "is not there" : "fits several: \(named.prefix(8).map(\.name).joined(separator: ", "))"
      throw CameraError(
        .preferenceAbsent, "The camera '\(id.prefix(80))', which camera.device in the settings names, \(what).",
        remedy: "Plug it in, or set camera.device to one of: talknode camera list")
    }
    throw CameraError(
      .unknownCamera, "There is no camera '\(id.prefix(80))', which was asked for.", remedy: "talknode camera list")
  }

  /// Why there is no camera at all.
  public var absence: CameraError {
    if let node = denied.first { return V4L2Device.notPermitted(node) }
    if let node = needingLibcamera.first {
      return CameraError(
        .noCamera, "The camera at \(node) needs libcamera, and no program that reads it is set.",
        remedy: "Set [camera.source.NAME] as in config/recipes/raspberry-pi-camera.toml.")
    }
    return CameraError(
      .noCamera, "This machine has no camera.", remedy: "Plug one in, or set [camera.source.NAME] in the settings.")
  }
}
