/// A voice of the synthesiser.
public struct Voice: Sendable, Equatable {
  /// The engine's name, for example `English_(America)`.
  public let name: String
  /// What the engine is told to choose it: the voice's file, for example `gmw/en-US`, which is unique where names are not.
  public let identifier: String
  /// BCP-47 tags in lower case with the voice's own preference for each: lower is better.
  public let languages: [Language]

  public struct Language: Sendable, Equatable {
    public let tag: String
    public let priority: Int
    public init(_ tag: String, priority: Int = 5) {
      self.tag = tag
      self.priority = priority
    }
  }

  public init(name: String, identifier: String, languages: [Language]) {
    self.name = name
    self.identifier = identifier
    self.languages = languages
  }

  /// mbrola voices need data and a program that espeak-ng does not bring; the engine lists them all the same.
  var mbrolaName: String? {
    guard let slash = identifier.lastIndex(of: "/"), identifier[..<slash].hasSuffix("mb") else { return nil }
    let file = identifier[identifier.index(after: slash)...]
    return file.hasPrefix("mb-") ? String(file.dropFirst(3).prefix { $0 != "-" }) : nil
  }
}

/// Which voice speaks a language.
public enum VoiceChoice {
  /// The tags to look for, best first: the tag itself, then with its last subtags left off, each also under the name that the engine
  /// knows the language by; at the end `en`. Takes BCP-47 (`zh-Hant-TW`) and POSIX (`de_AT.UTF-8`) names; anything else gives `en`.
  public static func chain(for language: String?) -> [String] {
    var chain: [String] = []
    var subtags = (language ?? "").prefix(64).lowercased().prefix { $0 != "." && $0 != "@" }
      .split { $0 == "-" || $0 == "_" }.map(String.init)
    let isTag = subtags.allSatisfy { (1...8).contains($0.utf8.count) && $0.utf8.allSatisfy(isAlphanumeric) }
    if !isTag || (subtags.first?.count ?? 0) < 2 { subtags = [] }
    while !subtags.isEmpty {
      let tag = subtags.joined(separator: "-")
      // Chinese as used in these places is spoken as Cantonese.
      if ["zh-hk", "zh-mo", "zh-hant-hk", "zh-hant-mo", "zh-yue"].contains(tag) { chain.append("yue") }
      chain.append(tag)
      if subtags[0] == "es", subtags.count > 1, latinAmerica.contains(subtags[1]) { chain.append("es-419") }
      if let known = aliases[subtags[0]] { chain.append(([known] + subtags.dropFirst()).joined(separator: "-")) }
      subtags.removeLast()
      // A singleton begins an extension and means nothing by itself (BCP-47 §4.4.2).
      if subtags.last?.count == 1 { subtags.removeLast() }
    }
    if !chain.contains("en") { chain.append("en") }
    var seen: Set<String> = []
    return chain.filter { seen.insert($0).inserted }
  }

  /// The best voice for `language` among `voices`; nil only when not even `en` is there. A voice whose `isUsable` is false is skipped.
  public static func voice(
    for language: String?, among voices: [Voice], isUsable: (Voice) -> Bool = { _ in true }
  ) -> Voice? {
    for tag in chain(for: language) {
      let matches = voices.enumerated().compactMap { index, voice -> (rank: (Int, Int, Int, Int), voice: Voice)? in
        guard let match = voice.languages.enumerated().filter({ $0.element.tag == tag }).min(by: rank),
          isUsable(voice)
        else { return nil }
        // A voice made for the tag before one that also takes it; the engine's own before mbrola's.
        return ((voice.mbrolaName == nil ? 0 : 1, match.offset == 0 ? 0 : 1, match.element.priority, index), voice)
      }
      if let best = matches.min(by: { $0.rank < $1.rank }) { return best.voice }
    }
    return nil
  }

  /// The voice that a person or a directive names: by name, by file or by the file's last part, in either case, with an optional
  /// `+variant`, which is kept. Nil for names that no usable voice has, such as those of other engines.
  public static func voice(named name: String, among voices: [Voice], isUsable: (Voice) -> Bool = { _ in true })
    -> (voice: Voice, variant: String)?
  {
    let parts = name.split(separator: "+", maxSplits: 1, omittingEmptySubsequences: false)
    let wanted = parts[0].lowercased()
    let variant = parts.count > 1 ? String(parts[1]) : ""
    guard !wanted.isEmpty, variant.utf8.count <= 32,
      variant.utf8.allSatisfy({ isAlphanumeric($0 | 0x20) || $0 == UInt8(ascii: "_") || $0 == UInt8(ascii: "-") })
    else { return nil }
    let match = voices.first { voice in
      let identifier = voice.identifier.lowercased()
      return isUsable(voice)
        && (identifier == wanted || identifier.hasSuffix("/" + wanted) || voice.name.lowercased() == wanted)
    }
    return match.map { ($0, variant) }
  }

  private static func rank(
    _ left: (offset: Int, element: Voice.Language), _ right: (offset: Int, element: Voice.Language)
  )
    -> Bool
  {
    (left.element.priority, left.offset) < (right.element.priority, right.offset)
  }

  private static func isAlphanumeric(_ byte: UInt8) -> Bool {
    (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) || (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte)
  }

  private static let latinAmerica: Set<String> = [
    "ar", "bo", "cl", "co", "cr", "cu", "do", "ec", "gt", "hn", "mx", "ni", "pa", "pe", "pr", "py", "sv", "us", "uy",
    "ve",
  ]

  /// Languages that espeak-ng has under another code than people write.
  private static let aliases = [
    "zh": "cmn", "no": "nb", "iw": "he", "in": "id", "ji": "yi", "mo": "ro", "sh": "hr", "fil": "tl", "prs": "fa",
    "arb": "ar", "zsm": "ms", "ekk": "et", "lvs": "lv", "swh": "sw", "nn": "nb",
  ]
}
