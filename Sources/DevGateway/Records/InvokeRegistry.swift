/// Invokes that wait for their node (protocol §10.2, §10.3). Pure: timers and sockets are the caller's.
///
/// An invoke belongs to the connection it was sent on: a result from another one, a second one, or one after the deadline finds
/// nothing here and is ignored.
struct InvokeRegistry {
  struct Entry {
    var id: String
    var nodeID: String
    var connection: Int
    var command: String
    /// `node.invoke.cancel` is sent for streaming invokes, and to the official host for any (§10.3).
    var sendsCancel: Bool
    var caller: Caller
    var asked: DevGateway.Asked
    var stream = Stream()
    var nextInput: Int64 = 0
  }

  enum Caller: Equatable {
    case `operator`(connection: Int, requestID: String)
    /// The gateway's own agent, which asks for the outcome by the invoke's id.
    case agent
  }

  /// Progress chunks, put in order.
  struct Stream: Equatable {
    /// More than this out of order, or a larger chunk, is refused.
    static let mostHeld = 128
    static let mostBytes = 16 << 10
    var chunks: [String] = []
    private var held: [Int64: String] = [:]
    private var next: Int64 = 0

    /// False when the chunk is not taken: seen before, too large, or too far ahead.
    mutating func add(_ chunk: String, seq: Int64) -> Bool {
      // The one that the others wait for always has a place.
      guard seq >= next, held[seq] == nil, chunk.utf8.count <= Self.mostBytes,
        seq == next || held.count < Self.mostHeld
      else { return false }
      held[seq] = chunk
      while let chunk = held.removeValue(forKey: next) {
        chunks.append(chunk)
        next += 1
      }
      return true
    }
  }

  private(set) var entries: [String: Entry] = [:]

  mutating func begin(_ entry: Entry) { entries[entry.id] = entry }

  /// The invoke that this result ends; nil when it is to be ignored.
  mutating func end(_ id: String, from connection: Int) -> Entry? {
    guard entries[id]?.connection == connection else { return nil }
    return entries.removeValue(forKey: id)
  }

  /// The invoke that runs out of time or is called off now; nil when it has ended.
  mutating func giveUp(_ id: String) -> Entry? { entries.removeValue(forKey: id) }

  /// All that a lost connection leaves unanswered.
  mutating func lose(_ connection: Int) -> [Entry] {
    let lost = entries.values.filter { $0.connection == connection }.sorted { $0.id < $1.id }
    for entry in lost { entries[entry.id] = nil }
    return lost
  }

  /// Takes a chunk; nil when there is no such invoke on this connection, false when the chunk is not taken.
  mutating func progress(_ id: String, from connection: Int, seq: Int64, chunk: String) -> Bool? {
    guard entries[id]?.connection == connection else { return nil }
    return entries[id]?.stream.add(chunk, seq: seq)
  }

  /// The number of the next input of an invoke; nil when it has ended.
  mutating func nextInput(_ id: String) -> (entry: Entry, seq: Int64)? {
    guard let entry = entries[id] else { return nil }
    entries[id]?.nextInput += 1
    return (entry, entry.nextInput)
  }
}
