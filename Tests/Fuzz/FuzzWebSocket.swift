// covers, as websocket: Sources/Transport/FrameDecoder.swift Sources/Transport/Mask.swift
// covers, as http: Sources/Transport/HTTPHead.swift
import Transport

/// WebSocket frames. The first byte says which side reads and the second where the rest is cut: neither how the bytes are cut nor how often
/// may change what is read.
@Sendable func fuzzWebSocket(_ bytes: UnsafeRawBufferPointer) {
  guard bytes.count > 2 else { return }
  let wire = UnsafeRawBufferPointer(rebasing: bytes[2...])
  func read(in step: Int) -> ([FrameDecoder.Event], FrameDecoder.Violation?) {
    var decoder = FrameDecoder(expectsMask: bytes[0] & 1 == 1, maxMessage: 4096)
    var events: [FrameDecoder.Event] = []
    var start = 0
    while start < wire.count {
      let end = min(start + step, wire.count)
      do {
        try decoder.feed(UnsafeRawBufferPointer(rebasing: wire[start..<end])) { events.append($0) }
      } catch {
        return (events, error)
      }
      start = end
    }
    return (events, nil)
  }
  let whole = read(in: wire.count)
  let cut = read(in: 1 + Int(bytes[1]) % 16)
  precondition(whole.0 == cut.0 && whole.1 == cut.1, "cut frames are read otherwise")
  for case .message(let message) in whole.0 { precondition(message.bytes.count <= 4096, "a message over the limit") }
}

/// The heads of upgrade requests and responses, whole and byte by byte.
@Sendable func fuzzHTTP(_ bytes: UnsafeRawBufferPointer) {
  guard let first = bytes.first else { return }
  let kind: HTTPHead.Kind = first & 1 == 0 ? .request : .response
  let wire = UnsafeRawBufferPointer(rebasing: bytes[1...])
  var reader = HTTPHeadReader(kind)
  guard let whole = try? reader.feed(wire) else { return }
  var slow = HTTPHeadReader(kind)
  for index in wire.indices {
    guard let head = try? slow.feed(UnsafeRawBufferPointer(rebasing: wire[index...index])) else { continue }
    precondition(head.head == whole.head, "a head in pieces is read otherwise")
    precondition(index + 1 + whole.rest.count == wire.count, "bytes after the head were lost")
    return
  }
  preconditionFailure("a head in pieces is not read")
}
