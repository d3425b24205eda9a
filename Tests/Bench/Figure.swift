import GatewayProtocol

/// One measured value beside what it should be.
struct Figure: Sendable {
  enum Target: Sendable {
    case atMost(Double)
    case atLeast(Double)

    func isMet(by value: Double) -> Bool {
      switch self {
      case .atMost(let limit): value <= limit
      case .atLeast(let limit): value >= limit
      }
    }
  }

  let name: String
  let unit: String
  var value: Double?
  var target: Target?
  /// Another program or a bare mechanism, measured the same way in the same run.
  var comparison: (name: String, value: Double)?
  var note: String?
  /// Why there is no value.
  var problem: String?

  init(
    _ name: String, unit: String, value: Double? = nil, target: Target? = nil, comparison: (String, Double)? = nil,
    note: String? = nil, problem: String? = nil
  ) {
    self.name = name
    self.unit = unit
    self.value = value
    self.target = target
    self.comparison = comparison.map { (name: $0.0, value: $0.1) }
    self.note = note
    self.problem = problem
  }

  /// Of the value to what it is compared with.
  var ratio: Double? {
    guard let value, let comparison, comparison.value > 0 else { return nil }
    return value / comparison.value
  }

  var isMet: Bool? { value.flatMap { value in target?.isMet(by: value) } }
}

/// Repeated measurements of one thing.
struct Samples: Sendable {
  private(set) var values: [Double] = []

  mutating func add(_ value: Double) { values.append(value) }

  /// The value that `fraction` of the samples do not exceed.
  func quantile(_ fraction: Double) -> Double {
    if values.isEmpty { return .nan }
    let sorted = values.sorted()
    return sorted[min(sorted.count - 1, Int(Double(sorted.count) * fraction))]
  }

  var median: Double { quantile(0.5) }
}

enum Report {
  static func table(_ figures: [(section: String, figure: Figure)]) -> String {
    var rows = [["figure", "value", "target", "", "beside", "ratio", "note"]]
    for (section, figure) in figures {
      let target =
        switch figure.target {
        case .atMost(let limit): "≤ " + text(limit, figure.unit)
        case .atLeast(let limit): "≥ " + text(limit, figure.unit)
        case nil: ""
        }
      rows.append([
        section == figure.name ? section : "\(section): \(figure.name)",
        figure.value.map { text($0, figure.unit) } ?? "not measured", target,
        figure.isMet.map { $0 ? "met" : "MISSED" } ?? "",
        figure.comparison.map { "\(text($0.value, figure.unit)) \($0.name)" } ?? "",
        figure.ratio.map { text($0, "×") } ?? "", figure.problem ?? figure.note ?? "",
      ])
    }
    let widths = rows[0].indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
    return rows.map { row in
      zip(row, widths).map { $0 + String(repeating: " ", count: $1 - $0.count) }.joined(separator: "  ").trimmedEnd
    }.joined(separator: "\n")
  }

  static func json(_ figures: [(section: String, figure: Figure)], _ options: Options) -> JSON {
    let list = figures.map { section, figure in
      let limit: Double? =
        switch figure.target {
        case .atMost(let value), .atLeast(let value): value
        case nil: nil
        }
      return JSON.object(present: [
        "section": .string(section), "name": .string(figure.name), "unit": .string(figure.unit),
        "value": figure.value.map(JSON.double), "target": limit.map(JSON.double), "met": figure.isMet.map(JSON.bool),
        "beside": figure.comparison.map { .object(present: ["name": .string($0.name), "value": .double($0.value)]) },
        "ratio": figure.ratio.map(JSON.double), "note": figure.note.map(JSON.string),
        "problem": figure.problem.map(JSON.string),
      ])
    }
    return ["machine": .string(Machine.description), "quick": .bool(options.isQuick), "figures": .array(list)]
  }

  /// Three significant digits and the unit.
  static func text(_ value: Double, _ unit: String) -> String {
    let digits = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2
    let scale = [1.0, 10.0, 100.0][digits]
    let scaled = Int((value * scale).rounded())
    var number = String(scaled / Int(scale))
    if digits > 0 {
      let fraction = String(scaled % Int(scale))
      number += "." + String(repeating: "0", count: digits - fraction.count) + fraction
    }
    return unit.isEmpty ? number : unit == "×" ? number + unit : "\(number) \(unit)"
  }
}

extension String {
  fileprivate var trimmedEnd: String {
    var text = Substring(self)
    while text.last == " " { text.removeLast() }
    return String(text)
  }
}
