// covers, as encoder: Sources/EncoderProtocol/EncoderProtocol.swift Sources/EncoderProtocol/EncoderRequest.swift Sources/EncoderProtocol/EncoderReply.swift
import EncoderProtocol

/// What the encoder and a clip's side say to each other. The first byte says where the rest is cut: that may not change what is read; and
/// what is read is written again as it was.
@Sendable func fuzzEncoder(_ bytes: UnsafeRawBufferPointer) {
  guard bytes.count > 1 else { return }
  let wire = UnsafeRawBufferPointer(rebasing: bytes[1...])
  func read(in step: Int) -> ([EncoderMessage], EncoderProtocolError?) {
    var reader = EncoderMessageReader(longest: 4096)
    var messages: [EncoderMessage] = []
    var start = 0
    while start < wire.count {
      let end = min(start + step, wire.count)
      do { messages += try reader.feed(UnsafeRawBufferPointer(rebasing: wire[start..<end])) } catch {
        return (messages, error)
      }
      start = end
    }
    return (messages, nil)
  }
  let whole = read(in: wire.count)
  let cut = read(in: 1 + Int(bytes[0]) % 16)
  // A piece with a fault gives none of its messages; cut finer, those before the fault have been given.
  precondition(whole.1 == cut.1, "cut messages are read otherwise")
  if whole.1 == nil { precondition(whole.0 == cut.0, "cut messages are read otherwise") }
  for message in cut.0 {
    precondition(message.payload.count <= 4096, "a message over the limit")
    if let request = try? EncoderRequest(message) {
      precondition((try? EncoderRequest(request.message)) == request, "a request is not written as it was read")
      if case .begin(let order) = request { _ = BitBudget(order) }
    }
    if let reply = try? EncoderReply(message) {
      precondition((try? EncoderReply(reply.message)) != nil, "a reply is not written as it was read")
    }
  }
}
