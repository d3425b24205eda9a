import System

/// Rows of a CSV text (RFC 4180, with `;` or a tab in place of the comma when the first line has those), one at a time. A row is at most 64 KB.
struct CSVRows {
  private let input: BufferedInput
  private let gathering: Gathering
  private var separator: UInt8?
  /// Of the row given out last, from 1.
  private(set) var line = 0

  init(_ input: any ByteInput, _ gathering: Gathering) {
    self.input = BufferedInput(input, capacity: 64 << 10, check: gathering.check)
    self.gathering = gathering
  }

  /// The fields of the next row that is not empty, without blanks around them; nil at the end.
  mutating func next() throws(HealthError) -> [String]? {
    while true {
      guard let length = try rowLength() else { return nil }
      let bytes = UnsafeBufferPointer(start: UnsafePointer(input.current), count: length)
      line += 1
      if separator == nil {
        let known: [UInt8] = [0x3B, 0x09, 0x2C]
        separator = known.max { left, right in
          bytes.reduce(0) { $0 + ($1 == left ? 1 : 0) } < bytes.reduce(0) { $0 + ($1 == right ? 1 : 0) }
        }
      }
      let fields = split(bytes)
      input.skip(length)
      if fields.contains(where: { !$0.isEmpty }) { return fields }
    }
  }

  /// To past the line's end; nil at the end of the text.
  private func rowLength() throws(HealthError) -> Int? {
    var index = 0
    var isQuoted = false
    while true {
      let bytes = input.current
      while index < input.available {
        if bytes[index] == 0x22 { isQuoted.toggle() }
        if bytes[index] == 0x0A, !isQuoted { return index + 1 }
        index += 1
      }
      if try !input.more() {
        if !input.hasEnded {
          gathering.remark(.damage, "The row after line \(line) is longer than 64 KB and is cut.")
        }
        return index == 0 ? nil : index
      }
    }
  }

  private func split(_ bytes: UnsafeBufferPointer<UInt8>) -> [String] {
    var fields: [String] = []
    var field: [UInt8] = []
    var isQuoted = false
    func text() -> String {
      let text = String(decoding: field, as: UTF8.self).trimmed
      return text.hasPrefix("\u{FEFF}") ? String(text.dropFirst()) : text
    }
    for byte in bytes {
      if byte == 0x22 {
        isQuoted.toggle()
      } else if byte == separator, !isQuoted {
        fields.append(text())
        field.removeAll(keepingCapacity: true)
      } else {
        field.append(byte)
      }
    }
    fields.append(text())
    return fields
  }
}
