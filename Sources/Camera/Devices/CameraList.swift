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
    /// Nodes whose drivers do not answer.
    public var stuck: [String] = []
    var stuckIDs: Set<String> = []
    /// Nodes of CSI sensors, which a program has to read.
    public var needingLibcamera: [String] = []

    public init() {}
  }

  /// Looks at all nodes.
  @concurrent
  func find(_ probes: NodeProbes) async -> Findings {
    let nodes = nodes()
    let links = stableLinks()
    let answers = await probes.ask(nodes)
    var findings = Findings()
    for node in nodes {
      let id = links[node] ?? node
      switch answers[node] {
      case .camera(let name, let driver):
        findings.devices.append(CameraDevice(id: id, name: name, origin: .v4l2(node: node, driver: driver)))
      case .needsLibcamera: findings.needingLibcamera.append(node)
      case .notPermitted:
        findings.denied.append(node)
        findings.deniedIDs.insert(id)
      case .stuck:
        findings.stuck.append(node)
        findings.stuckIDs.insert(id)
      case .noCamera, nil: break
      }
    }
    for source in sources {
      let origin: CameraDevice.Origin = if case .recording = source.kind { .recording } else { .program }
      findings.devices.append(CameraDevice(id: source.name, name: source.name, origin: origin))
    }
    return findings
  }

  /// Why a node whose driver hangs gives nothing.
  public static func stuck(_ node: String) -> CameraError {
    CameraError(
      .stuck, "The driver of the camera \(node) does not answer.",
      remedy: "Unplug the camera, plug it in again, look at: sudo dmesg")
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
  /// The camera with this id, node or name; the first one for nil. Throws `noCamera`, `notPermitted`, `stuck` or `unknownCamera`.
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
    if stuck.contains(id) || stuckIDs.contains(id) { throw CameraList.stuck(id) }
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
    if let node = stuck.first { return CameraList.stuck(node) }
    if let node = denied.first { return V4L2Device.notPermitted(node) }
    if let node = needingLibcamera.first {
      return CameraError(
        .noCamera, "The camera at \(node) needs libcamera, and no program that reads it is set.",
        remedy: "Set [camera.source.NAME] as in share/talknode/recipes/raspberry-pi-camera.toml.")
    }
    return CameraError(
      .noCamera, "This machine has no camera.", remedy: "Plug one in, or set [camera.source.NAME] in the settings.")
  }
}
