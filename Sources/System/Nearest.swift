/// The candidate most like `word`, for "did you mean"; nil when none is near: more than a third of the letters (at least one, at most
/// three) would have to change. Insertions, deletions, changed letters and two letters swapped count one each; case and `-`/`_` nothing.
public func nearest(to word: String, among candidates: some Sequence<String>) -> String? {
  let wanted = folded(word)
  // Words of a person's keyboard are short; what is longer is no slip and not worth the quadratic comparison.
  if wanted.isEmpty || wanted.count > 64 { return nil }
  var best: (candidate: String, distance: Int)?
  for candidate in candidates {
    let limit = min(max(candidate.utf8.count / 3, 1), 3)
    let distance = editDistance(wanted, folded(candidate))
    if distance <= limit, distance < best?.distance ?? Int.max { best = (candidate, distance) }
  }
  return best?.candidate
}

private func folded(_ word: String) -> [UInt8] {
  word.utf8.map { $0 >= 65 && $0 <= 90 ? $0 + 32 : $0 == UInt8(ascii: "_") ? UInt8(ascii: "-") : $0 }
}

/// Optimal string alignment: Levenshtein with swaps of neighbours.
private func editDistance(_ left: [UInt8], _ right: [UInt8]) -> Int {
  if left.isEmpty || right.isEmpty { return max(left.count, right.count) }
  var beforeLast = [Int](repeating: 0, count: right.count + 1)
  var last = Array(0...right.count)
  for row in 1...left.count {
    var current = [row] + [Int](repeating: 0, count: right.count)
    for column in 1...right.count {
      let change = left[row - 1] == right[column - 1] ? 0 : 1
      current[column] = min(last[column] + 1, current[column - 1] + 1, last[column - 1] + change)
      if row > 1, column > 1, left[row - 1] == right[column - 2], left[row - 2] == right[column - 1] {
        current[column] = min(current[column], beforeLast[column - 2] + 1)
      }
    }
    (beforeLast, last) = (last, current)
  }
  return last[right.count]
}
