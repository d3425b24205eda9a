/// A JSON value.
///
/// The gateway link has a coder of its own because FoundationEssentials' needs 390 ms for a 12.5 MB frame (measured), has no
/// limits, and does not say where a mistake is.
public enum JSON: Sendable, Equatable {
  case null
  case bool(Bool)
  /// A number without fraction or exponent that fits in 64 bits.
  case int(Int64)
  case double(Double)
  case string(String)
  case array([JSON])
  case object([String: JSON])
}

// MARK: Looking in

extension JSON {
  /// A member of an object; nil when this is no object, has no such member, or has null there.
  public subscript(_ key: String) -> JSON? {
    guard case .object(let members) = self, let value = members[key], value != .null else { return nil }
    return value
  }

  public var string: String? { if case .string(let value) = self { value } else { nil } }
  public var bool: Bool? { if case .bool(let value) = self { value } else { nil } }
  public var array: [JSON]? { if case .array(let value) = self { value } else { nil } }
  public var object: [String: JSON]? { if case .object(let value) = self { value } else { nil } }
  public var isNull: Bool { self == .null }

  /// A whole number, also one written with a fraction of zero (`5.0`).
  public var int: Int64? {
    switch self {
    case .int(let value): value
    case .double(let value): Int64(exactly: value)
    default: nil
    }
  }

  public var double: Double? {
    switch self {
    case .int(let value): Double(value)
    case .double(let value): value
    default: nil
    }
  }

  /// The strings of an array; nil when this is no array or holds anything else.
  public var strings: [String]? {
    guard let array else { return nil }
    var strings: [String] = []
    for element in array {
      guard let string = element.string else { return nil }
      strings.append(string)
    }
    return strings
  }
}

// MARK: Writing down

extension JSON: ExpressibleByStringLiteral, ExpressibleByBooleanLiteral, ExpressibleByIntegerLiteral,
  ExpressibleByFloatLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral, ExpressibleByNilLiteral
{
  public init(stringLiteral value: String) { self = .string(value) }
  public init(booleanLiteral value: Bool) { self = .bool(value) }
  public init(integerLiteral value: Int64) { self = .int(value) }
  public init(floatLiteral value: Double) { self = .double(value) }
  public init(arrayLiteral elements: JSON...) { self = .array(elements) }
  public init(nilLiteral: ()) { self = .null }
  public init(dictionaryLiteral elements: (String, JSON)...) {
    self = .object(Dictionary(elements) { _, last in last })
  }

  /// An object of the members that have a value: absent facts are left out, not written as null.
  public static func object(present members: KeyValuePairs<String, JSON?>) -> JSON {
    var object: [String: JSON] = [:]
    for (key, value) in members { if let value { object[key] = value } }
    return .object(object)
  }

  public static func strings(_ values: some Sequence<String>) -> JSON { .array(values.map(JSON.string)) }
}
