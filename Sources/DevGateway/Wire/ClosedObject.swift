import GatewayProtocol

/// Why params do not fit their schema: `at root: unexpected property 'bogus'`, as the gateway words it.
struct SchemaError: Error, Equatable {
  let path: String
  let problem: String
  var text: String { "at \(path): \(problem)" }
}

/// Reads a JSON object that may have no members but the known ones (protocol §2, §3.2: objects are closed).
struct ClosedObject {
  private let path: String
  private let members: [String: JSON]

  /// No params count as an empty object.
  init(_ json: JSON?, at path: String = "root", known: Set<String>) throws(SchemaError) {
    guard let members = (json ?? [:]).object else { throw SchemaError(path: path, problem: "must be object") }
    if let extra = members.keys.filter({ !known.contains($0) }).min() {
      throw SchemaError(path: path, problem: "unexpected property '\(extra)'")
    }
    self.path = path
    self.members = members
  }

  subscript(_ key: String) -> JSON? { members[key] }

  func fail(_ key: String, _ problem: String) -> SchemaError {
    SchemaError(path: (path == "root" ? "" : path) + "/" + key, problem: problem)
  }

  func required(_ key: String) throws(SchemaError) -> JSON {
    guard let value = members[key] else {
      throw SchemaError(path: path, problem: "must have required property '\(key)'")
    }
    return value
  }

  /// A text of 1 to `limit` characters.
  func text(_ key: String, limit: Int = .max) throws(SchemaError) -> String {
    let text = try anyText(key)
    if text.isEmpty { throw fail(key, "must NOT have fewer than 1 characters") }
    if limit < .max && text.unicodeScalars.count > limit {
      throw fail(key, "must NOT have more than \(limit) characters")
    }
    return text
  }

  /// A text that may be empty.
  func anyText(_ key: String) throws(SchemaError) -> String {
    guard let text = try required(key).string else { throw fail(key, "must be string") }
    return text
  }

  func optionalText(_ key: String, limit: Int = .max) throws(SchemaError) -> String? {
    members[key] == nil ? nil : try text(key, limit: limit)
  }

  func optionalAnyText(_ key: String) throws(SchemaError) -> String? { members[key] == nil ? nil : try anyText(key) }

  func whole(_ key: String, in range: ClosedRange<Int64> = 0...Int64.max) throws(SchemaError) -> Int64 {
    guard let value = try required(key).int else { throw fail(key, "must be integer") }
    if value < range.lowerBound { throw fail(key, "must be >= \(range.lowerBound)") }
    if value > range.upperBound { throw fail(key, "must be <= \(range.upperBound)") }
    return value
  }

  func optionalWhole(_ key: String, in range: ClosedRange<Int64> = 0...Int64.max) throws(SchemaError) -> Int64? {
    members[key] == nil ? nil : try whole(key, in: range)
  }

  func optionalFlag(_ key: String) throws(SchemaError) -> Bool? {
    guard let value = members[key] else { return nil }
    guard let flag = value.bool else { throw fail(key, "must be boolean") }
    return flag
  }

  func optionalTexts(_ key: String) throws(SchemaError) -> [String]? {
    guard let value = members[key] else { return nil }
    guard let array = value.array else { throw fail(key, "must be array") }
    var texts: [String] = []
    for (index, element) in array.enumerated() {
      guard let text = element.string else { throw fail("\(key)/\(index)", "must be string") }
      if text.isEmpty { throw fail("\(key)/\(index)", "must NOT have fewer than 1 characters") }
      texts.append(text)
    }
    return texts
  }

  func optionalFlags(_ key: String) throws(SchemaError) -> [String: Bool]? {
    guard let value = members[key] else { return nil }
    guard let object = value.object else { throw fail(key, "must be object") }
    var flags: [String: Bool] = [:]
    for (name, element) in object {
      guard let flag = element.bool else { throw fail("\(key)/\(name)", "must be boolean") }
      flags[name] = flag
    }
    return flags
  }

  func optionalChoice(_ key: String, of choices: Set<String>) throws(SchemaError) -> String? {
    guard let text = try optionalText(key) else { return nil }
    if !choices.contains(text) { throw fail(key, "must be equal to one of the allowed values") }
    return text
  }
}
