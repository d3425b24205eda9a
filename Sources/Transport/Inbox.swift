/// Messages that nobody has received yet.
struct Inbox {
  private var messages: [Message] = []
  private var first = 0
  /// Their sizes together.
  private(set) var bytes = 0

  var count: Int { messages.count - first }

  mutating func add(_ message: Message) {
    messages.append(message)
    bytes += message.bytes.count
  }

  mutating func take() -> Message? {
    if first == messages.count { return nil }
    let message = messages[first]
    messages[first] = Message(bytes: [], isText: false)
    bytes -= message.bytes.count
    first += 1
    if first == messages.count {
      messages.removeAll(keepingCapacity: messages.count <= 256)
      first = 0
    }
    return message
  }
}
