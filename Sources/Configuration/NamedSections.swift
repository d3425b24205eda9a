/// Sections of one kind, each under a name that a person chose: `[camera.source.garden]`.
public struct NamedSections<Section: SettingsSection>: Sendable {
  /// In the order of the files.
  public private(set) var names: [String] = []
  private var sections: [String: Section] = [:]

  public init() {}

  /// The section of a name; storing one adds it.
  public subscript(name: String) -> Section {
    get { sections[name] ?? Section() }
    set {
      if sections.updateValue(newValue, forKey: name) == nil { names.append(name) }
    }
  }

  /// What may be a name: it stands in ids and messages.
  static func isName(_ text: String) -> Bool {
    (1...40).contains(text.utf8.count)
      && text.utf8.allSatisfy { byte in
        (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte) || byte == 0x2D
          || byte == 0x5F
      }
  }
}

/// So many of one kind, in all files together.
let namedSectionLimit = 32
