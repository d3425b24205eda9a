/// Bytes that wait for the kernel, and who wants to know when they have gone. A value; bounded by its owner.
struct Outbox {
  private var bytes: [UInt8] = []
  /// How many of `bytes` have gone.
  private var offset = 0
  /// How many went before `bytes[0]` since the beginning.
  private var base: UInt64 = 0
  /// Positions in the stream at which a ticket is due, ascending.
  private var tickets: [(position: UInt64, ticket: UInt64)] = []

  /// Bytes that have not gone.
  var count: Int { bytes.count - offset }
  var isEmpty: Bool { count == 0 }

  /// Calls `body` with what is next to go.
  func withNext<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result {
    bytes.withUnsafeBytes { body(UnsafeRawBufferPointer(rebasing: $0[offset...])) }
  }

  /// Lets `write` append to the end.
  mutating func append(_ write: (inout [UInt8]) -> Void) {
    // What has gone is cut off now and then, so that an outbox that is never quite empty does not grow.
    if offset > 1 << 20 && offset > bytes.count / 2 {
      bytes.removeSubrange(..<offset)
      base += UInt64(offset)
      offset = 0
    }
    write(&bytes)
  }

  /// `ticket` becomes due when all that is in the outbox now has gone.
  mutating func mark(_ ticket: UInt64) { tickets.append((base + UInt64(bytes.count), ticket)) }

  /// `count` bytes have gone. Returns the tickets that are due.
  mutating func advance(_ count: Int) -> [UInt64] {
    offset += count
    let position = base + UInt64(offset)
    if offset == bytes.count {
      base = position
      offset = 0
      // A rare big message must not hold its memory for ever.
      bytes.removeAll(keepingCapacity: bytes.capacity <= 1 << 18)
    }
    if tickets.isEmpty || tickets[0].position > position { return [] }
    let due = tickets.prefix { $0.position <= position }.map(\.ticket)
    tickets.removeFirst(due.count)
    return due
  }

  /// Drops everything and returns the tickets that will never be due.
  mutating func clear() -> [UInt64] {
    defer { self = Outbox() }
    return tickets.map(\.ticket)
  }
}
