/// Whose steps count where several devices counted over the same time.
public struct SourcePriority: Sendable, Equatable {
  /// Parts of names, the most believed first, in any case of letters.
  public let names: [String]

  public init(_ names: [String] = []) { self.names = names.map { $0.lowercased() } }

  /// Whether the first is believed before the second: what the person has named, in that order; then what is worn before what is carried
  /// before what is neither; then by name, so that the order of files never matters.
  func precedes(_ left: HealthSource, _ right: HealthSource) -> Bool {
    let ranks = (rank(left), rank(right))
    if ranks.0 != ranks.1 { return ranks.0 < ranks.1 }
    if left.kind != right.kind { return left.kind < right.kind }
    if left.name != right.name { return left.name < right.name }
    if left.family != right.family { return left.family < right.family }
    return left.preference < right.preference
  }

  private func rank(_ source: HealthSource) -> Int {
    let name = source.name.lowercased()
    return names.firstIndex { name.contains($0) } ?? names.count
  }
}
