import System

/// What a setting is set to, as it is printed.
public enum SettingValue: Sendable, Equatable, CustomStringConvertible {
  case boolean(Bool)
  case integer(Int64)
  case number(Double)
  case text(String)
  case list([String])

  /// As it stands in a TOML file.
  public var description: String {
    switch self {
    case .boolean(let value): "\(value)"
    case .integer(let value): "\(value)"
    case .number(let value): "\(value)"
    case .text(let value): quoted(value)
    case .list(let values): "[" + values.map(quoted).joined(separator: ", ") + "]"
    }
  }

  private func quoted(_ text: String) -> String {
    var out = "\""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\"": out += "\\\""
      case "\\": out += "\\\\"
      case "\n": out += "\\n"
      case "\t": out += "\\t"
      case _ where scalar.value < 0x20 || scalar.value == 0x7F:
        let digits = String(scalar.value, radix: 16)
        out += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
      default: out.unicodeScalars.append(scalar)
      }
    }
    return out + "\""
  }
}

/// A table of the configuration file, for example `[node]`: a struct whose properties are optional, with its declarations.
public protocol SettingsSection: Sendable {
  init()
  /// The table's name.
  static var name: String { get }
  /// One or two sentences over the table in the sample file.
  static var summary: String { get }
  static var settings: [Setting<Self>] { get }
  /// What does not go together, each value being right by itself: the setting to name, and a sentence. nil when all is well.
  var contradiction: (setting: String, sentence: String)? { get }
}

extension SettingsSection {
  public var contradiction: (setting: String, sentence: String)? { nil }
}

/// The declaration of one setting. Reading, checking, printing, the sample file and the manual all work from it.
public struct Setting<Section: SettingsSection>: Sendable {
  let name: String
  /// Sentences for a person.
  let help: String
  /// What may be written, for example `one of "debug", "info"` or `1 to 64 characters`.
  let domain: String
  /// What stands in the sample file where the default depends on the machine or there is none.
  let example: SettingValue?
  /// Whether its value is kept out of everything that is printed.
  let isSecret: Bool
  /// Puts a value into the section; says what is wrong with it otherwise: `must be 1 to 64 characters`.
  let take: @Sendable (TOML, inout Section) -> String?
  /// What holds: the value set, or the default; nil when there is neither.
  let value: @Sendable (Section) -> SettingValue?
}

extension Setting {
  public typealias Path<Value> = WritableKeyPath<Section, Value?> & Sendable
  public typealias DefaultPath<Value> = KeyPath<Section, Value> & Sendable

  /// A text of some length, in characters.
  public static func text(
    _ name: String, _ path: Path<String>, default standard: DefaultPath<String>, length: ClosedRange<Int>,
    example: String? = nil, _ help: String
  ) -> Setting {
    let domain = "\(length.lowerBound) to \(length.upperBound) characters"
    return Setting(
      name: name, help: help, domain: domain, example: example.map(SettingValue.text), isSecret: false,
      take: { toml, section in
        guard case .string(let text) = toml, length.contains(text.count),
          !text.unicodeScalars.contains(where: { $0.value < 0x20 || $0.value == 0x7F })
        else { return "must be a string of \(domain), without control characters" }
        section[keyPath: path] = text
        return nil
      },
      value: { .text($0[keyPath: standard]) })
  }

  /// One word of several.
  public static func choice<Value: Sendable & Equatable>(
    _ name: String, _ path: Path<Value>, default standard: DefaultPath<Value>,
    of choices: KeyValuePairs<String, Value>, _ help: String
  ) -> Setting {
    let pairs = choices.map { (word: $0.key, value: $0.value) }
    let domain = "one of " + pairs.map { "\"\($0.word)\"" }.joined(separator: ", ")
    return Setting(
      name: name, help: help, domain: domain, example: nil, isSecret: false,
      take: { toml, section in
        guard case .string(let text) = toml, let chosen = pairs.first(where: { $0.word == text }) else {
          return "must be \(domain)"
        }
        section[keyPath: path] = chosen.value
        return nil
      },
      value: { section in
        let value = section[keyPath: standard]
        return pairs.first { $0.value == value }.map { .text($0.word) }
      })
  }

  /// A whole number, with its unit in words.
  public static func integer(
    _ name: String, _ path: Path<Int>, default standard: DefaultPath<Int>, range: ClosedRange<Int>, unit: String,
    _ help: String
  ) -> Setting {
    let domain = "\(range.lowerBound) to \(range.upperBound) \(unit)".trimmed
    return Setting(
      name: name, help: help, domain: domain, example: nil, isSecret: false,
      take: { toml, section in
        guard case .integer(let number) = toml, range.contains(Int(number)) else {
          return "must be a whole number, \(domain)"
        }
        section[keyPath: path] = Int(number)
        return nil
      },
      value: { .integer(Int64($0[keyPath: standard])) })
  }

  /// A number, with its unit in words.
  public static func number(
    _ name: String, _ path: Path<Double>, default standard: DefaultPath<Double>, range: ClosedRange<Double>,
    unit: String, _ help: String
  ) -> Setting {
    let domain = "\(range.lowerBound) to \(range.upperBound) \(unit)".trimmed
    return Setting(
      name: name, help: help, domain: domain, example: nil, isSecret: false,
      take: { toml, section in
        let number: Double? =
          switch toml {
          case .integer(let value): Double(value)
          case .float(let value): value
          default: nil
          }
        guard let number, range.contains(number) else { return "must be a number, \(domain)" }
        section[keyPath: path] = number
        return nil
      },
      value: { .number($0[keyPath: standard]) })
  }

  /// true or false.
  public static func flag(
    _ name: String, _ path: Path<Bool>, default standard: DefaultPath<Bool>, _ help: String
  ) -> Setting {
    Setting(
      name: name, help: help, domain: "true or false", example: nil, isSecret: false,
      take: { toml, section in
        guard case .boolean(let value) = toml else { return "must be true or false" }
        section[keyPath: path] = value
        return nil
      },
      value: { .boolean($0[keyPath: standard]) })
  }

  /// A list of strings. `check` says what is wrong with one: `must be …`. With `secret` the values are never printed.
  public static func list(
    _ name: String, _ path: Path<[String]>, default standard: DefaultPath<[String]>, count: ClosedRange<Int>,
    of element: String, example: [String], secret: Bool = false,
    check: @escaping @Sendable (String) -> String? = { _ in nil }, _ help: String
  ) -> Setting {
    let domain = "a list of \(count.lowerBound) to \(count.upperBound) \(element)"
    return Setting(
      name: name, help: help, domain: domain, example: .list(example), isSecret: secret,
      take: { toml, section in
        guard case .array(let nodes) = toml, count.contains(nodes.count) else { return "must be \(domain)" }
        var texts: [String] = []
        for node in nodes {
          guard case .string(let text) = node.value else { return "must be \(domain), each a string" }
          if let complaint = check(text) { return "holds an entry that \(complaint)" }
          texts.append(text)
        }
        section[keyPath: path] = texts
        return nil
      },
      value: { .list($0[keyPath: standard]) })
  }
}
