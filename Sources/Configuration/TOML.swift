import CTOML

/// A TOML document as it was read, each value with its place.
public indirect enum TOML: Sendable, Equatable {
  case string(String)
  case integer(Int64)
  case float(Double)
  case boolean(Bool)
  case date
  case array([Node])
  /// In the order of the names.
  case table([Member])

  public struct Place: Sendable, Equatable {
    /// From 1; 0 when unknown.
    public let line: Int
    /// In characters, from 1.
    public let column: Int
  }
  public struct Node: Sendable, Equatable {
    public let value: TOML
    public let place: Place
  }
  public struct Member: Sendable, Equatable {
    public let name: String
    public let value: TOML
    public let place: Place
  }

  /// `a string`, `a whole number`, …: what a person would call it.
  var kind: String {
    switch self {
    case .string: "a string"
    case .integer: "a whole number"
    case .float: "a number with a fraction"
    case .boolean: "true or false"
    case .date: "a date or time"
    case .array: "a list"
    case .table: "a table"
    }
  }
}

/// Why a text is no TOML, and where.
public struct TOMLError: Error, Sendable, Equatable {
  /// A sentence fragment.
  public let problem: String
  /// From 1; 0 when unknown.
  public let line: Int
  public let column: Int
}

extension TOML {
  /// The longest document taken, in bytes.
  public static let limit = 256 << 10

  /// The members of a document's table. Total: any bytes end in a table or an error.
  public static func document(_ bytes: [UInt8]) throws(TOMLError) -> [Member] {
    if bytes.count > limit {
      throw TOMLError(problem: "the file is longer than \(limit >> 10) KiB", line: 0, column: 0)
    }
    if bytes.isEmpty { return [] }
    var builder = TreeBuilder()
    var error = ctoml_error()
    let ok = withUnsafeMutablePointer(to: &builder) { builder in
      bytes.withUnsafeBytes { text in
        ctoml_parse(
          text.baseAddress!.assumingMemoryBound(to: CChar.self), text.count,
          { context, event in
            context!.assumingMemoryBound(to: TreeBuilder.self).pointee.add(event!.pointee)
          }, builder, &error)
      }
    }
    if ok == 1, case .table(let members)? = builder.document { return members }
    let message = withUnsafeBytes(of: &error.message) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
    throw TOMLError(problem: message, line: Int(error.line), column: Int(error.column))
  }
}

/// Puts the tree together from the shim's events.
private struct TreeBuilder {
  private struct Open {
    let isTable: Bool
    let name: String?
    let place: TOML.Place
    var members: [TOML.Member] = []
    var elements: [TOML.Node] = []
  }
  private var open: [Open] = []
  private(set) var document: TOML?

  mutating func add(_ event: ctoml_event) {
    let place = TOML.Place(line: Int(event.line), column: Int(event.column))
    let name = event.key.map { text($0, event.key_length) }
    switch event.kind {
    case CTOML_TABLE, CTOML_ARRAY: open.append(Open(isTable: event.kind == CTOML_TABLE, name: name, place: place))
    case CTOML_END:
      let closed = open.removeLast()
      put(closed.isTable ? .table(closed.members) : .array(closed.elements), closed.name, closed.place)
    case CTOML_STRING: put(.string(text(event.text, event.text_length)), name, place)
    case CTOML_INTEGER: put(.integer(event.integer), name, place)
    case CTOML_FLOAT: put(.float(event.number), name, place)
    case CTOML_BOOLEAN: put(.boolean(event.integer != 0), name, place)
    default: put(.date, name, place)
    }
  }

  private mutating func put(_ value: TOML, _ name: String?, _ place: TOML.Place) {
    guard let last = open.indices.last else {
      document = value
      return
    }
    if open[last].isTable {
      open[last].members.append(TOML.Member(name: name ?? "", value: value, place: place))
    } else {
      open[last].elements.append(TOML.Node(value: value, place: place))
    }
  }

  private func text(_ start: UnsafePointer<CChar>?, _ length: Int) -> String {
    String(decoding: UnsafeRawBufferPointer(start: start, count: length), as: UTF8.self)
  }
}
