import Glibc

/// A D-Bus value with its type (D-Bus specification, "Type System").
public indirect enum DBusValue: Sendable, Equatable {
  case byte(UInt8)
  case bool(Bool)
  case int16(Int16)
  case uint16(UInt16)
  case int32(Int32)
  case uint32(UInt32)
  case int64(Int64)
  case uint64(UInt64)
  case double(Double)
  case string(String)
  case objectPath(String)
  case signature(String)
  case descriptor(DBusDescriptor)
  /// An array of bytes; `array` never holds bytes when it was read.
  case bytes([UInt8])
  /// All elements have the signature `of`, which an empty array needs too.
  case array([DBusValue], of: String)
  case dictionary([Entry], key: String, value: String)
  case structure([DBusValue])
  case variant(DBusValue)

  public struct Entry: Sendable, Equatable {
    public let key: DBusValue
    public let value: DBusValue
    public init(_ key: DBusValue, _ value: DBusValue) {
      self.key = key
      self.value = value
    }
  }
}

/// An open file descriptor that came in a message or goes out in one; closed when the last copy of the value goes.
public final class DBusDescriptor: Sendable, Equatable {
  public let number: Int32
  /// Takes `number` over.
  public init(owning number: Int32) { self.number = number }
  deinit { close(number) }

  /// A descriptor of the caller's own for the same file, or -1 when none is left.
  public func duplicate() -> Int32 { fcntl(number, F_DUPFD_CLOEXEC, 3) }
  public static func == (left: DBusDescriptor, right: DBusDescriptor) -> Bool { left === right }
}

// MARK: Making

extension DBusValue {
  public static func strings(_ values: some Sequence<String>) -> DBusValue {
    .array(values.map(DBusValue.string), of: "s")
  }

  /// A dictionary `a{sv}`: each value is put into a variant.
  public static func options(_ members: KeyValuePairs<String, DBusValue?> = [:]) -> DBusValue {
    let entries = members.compactMap { key, value in value.map { Entry(.string(key), .variant($0)) } }
    return .dictionary(entries, key: "s", value: "v")
  }

  /// The type as a signature, for example `a{sv}`.
  public var typeSignature: String {
    switch self {
    case .byte: "y"
    case .bool: "b"
    case .int16: "n"
    case .uint16: "q"
    case .int32: "i"
    case .uint32: "u"
    case .int64: "x"
    case .uint64: "t"
    case .double: "d"
    case .string: "s"
    case .objectPath: "o"
    case .signature: "g"
    case .descriptor: "h"
    case .bytes: "ay"
    case .array(_, let element): "a" + element
    case .dictionary(_, let key, let value): "a{\(key)\(value)}"
    case .structure(let fields): "(" + fields.map(\.typeSignature).joined() + ")"
    case .variant: "v"
    }
  }
}

// MARK: Looking in

extension DBusValue {
  /// The value inside a variant, however deep; itself when it is none.
  public var unwrapped: DBusValue {
    var value = self
    while case .variant(let inner) = value { value = inner }
    return value
  }

  /// A string, an object path or a signature.
  public var text: String? {
    switch unwrapped {
    case .string(let text), .objectPath(let text), .signature(let text): text
    default: nil
    }
  }

  public var bool: Bool? { if case .bool(let value) = unwrapped { value } else { nil } }

  /// Any whole number that fits.
  public var int: Int64? {
    switch unwrapped {
    case .byte(let value): Int64(value)
    case .int16(let value): Int64(value)
    case .uint16(let value): Int64(value)
    case .int32(let value): Int64(value)
    case .uint32(let value): Int64(value)
    case .int64(let value): value
    case .uint64(let value): Int64(exactly: value)
    default: nil
    }
  }

  /// Any number.
  public var double: Double? { if case .double(let value) = unwrapped { value } else { int.map(Double.init) } }

  public var array: [DBusValue]? { if case .array(let elements, _) = unwrapped { elements } else { nil } }
  public var bytes: [UInt8]? { if case .bytes(let bytes) = unwrapped { bytes } else { nil } }
  public var fields: [DBusValue]? { if case .structure(let fields) = unwrapped { fields } else { nil } }
  public var descriptor: DBusDescriptor? { if case .descriptor(let value) = unwrapped { value } else { nil } }

  /// The members of a dictionary whose keys are strings, variants unwrapped; nil for anything else. A repeated key's last value
  /// counts.
  public var members: [String: DBusValue]? {
    guard case .dictionary(let entries, _, _) = unwrapped else { return nil }
    var members: [String: DBusValue] = [:]
    for entry in entries {
      guard let key = entry.key.text else { return nil }
      members[key] = entry.value.unwrapped
    }
    return members
  }
}
