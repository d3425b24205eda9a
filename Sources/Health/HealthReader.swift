/// Reads one format. Adding a format is a file with one of these, and a line in `HealthFormats.all`.
///
/// A reader is total: any bytes end in records, remarks, or a `HealthError` that names the place. What it put into the gathering before an
/// error holds.
public protocol HealthReader: Sendable {
  /// What a person calls it: `Apple Health`.
  var format: String { get }
  /// Whether a file is of this format, by its name (with the folders it lies in) and its first bytes, at most 4096.
  func recognizes(_ name: String, head: [UInt8]) -> Bool
  /// Puts all that touches the gathering's span into it.
  func read(_ input: HealthInput, into gathering: Gathering) throws(HealthError)
}

/// The formats there are. The first that recognises a file reads it.
public enum HealthFormats {
  public static let all: [any HealthReader] = [
    AppleHealthReader(), FITReader(), GadgetbridgeReader(), HealthConnectReader(), FitbitReader(), GoogleFitReader(),
    PlainReader(),
  ]

  static func reader(of name: String, head: [UInt8]) -> (any HealthReader)? {
    all.first { $0.recognizes(name, head: head) }
  }

  /// Of a kind that some format has: others in a folder are passed over without a look.
  static func mayBeOne(_ name: String) -> Bool {
    let lower = name.lowercased()
    if lower.split(separator: "/").last?.hasPrefix(".") ?? true { return false }
    // Its data base goes by any name, and mostly by one without a dot.
    if lower.contains("gadgetbridge") { return true }
    return [".xml", ".zip", ".db", ".sqlite", ".sqlite3", ".json", ".csv", ".tcx", ".fit"].contains {
      lower.hasSuffix($0)
    }
  }
}
