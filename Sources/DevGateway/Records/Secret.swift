/// Comparing secrets in a time that does not depend on where they differ.
enum Secret {
  static func areEqual(_ left: String, _ right: String) -> Bool {
    let left = Array(left.utf8)
    let right = Array(right.utf8)
    var difference = left.count ^ right.count
    for index in 0..<max(left.count, right.count) {
      difference |= Int(index < left.count ? left[index] : 0) ^ Int(index < right.count ? right[index] : 0)
    }
    return difference == 0
  }
}
