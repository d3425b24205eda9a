/// Who holds a device. One holder at a time; the second asker is told who it is.
///
/// A value: the actors around it do the opening and closing.
struct Ownership: Sendable, Equatable {
  /// One taking of the device. Numbers are never used twice, so a late release by an earlier holder frees nothing.
  struct Ticket: Sendable, Hashable { let number: UInt64 }

  enum Answer: Sendable, Equatable {
    case granted(Ticket)
    case heldBy(String)
  }

  private(set) var holder: String?
  private var ticket: Ticket?
  private var last: UInt64 = 0

  mutating func take(_ name: String) -> Answer {
    if let holder { return .heldBy(holder) }
    last += 1
    holder = name
    ticket = Ticket(number: last)
    return .granted(Ticket(number: last))
  }

  /// True when this ticket held the device and now does not.
  mutating func release(_ ticket: Ticket) -> Bool {
    if ticket != self.ticket { return false }
    holder = nil
    self.ticket = nil
    return true
  }

  func isHeld(by ticket: Ticket) -> Bool { ticket == self.ticket }
}
