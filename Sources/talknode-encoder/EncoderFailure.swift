import CAV
import EncoderProtocol

/// Why there is no clip.
struct EncoderFailure: Error {
  let kind: EncoderReply.Failure
  let reason: String

  init(_ kind: EncoderReply.Failure, _ reason: String) {
    self.kind = kind
    self.reason = reason
  }

  static let tooLarge = EncoderFailure(.tooLarge, "the clip does not fit into its limit")
}

/// Passes a result of libav* on; a negative one is a failure with its words.
@discardableResult
func check(_ result: Int32, _ what: String) throws(EncoderFailure) -> Int32 {
  if result >= 0 { return result }
  let reason = withUnsafeTemporaryAllocation(of: CChar.self, capacity: 128) { text in
    av_strerror(result, text.baseAddress, text.count)
    return String(cString: text.baseAddress!)
  }
  throw EncoderFailure(.encoding, "\(what): \(reason)")
}

/// What libav* could not allocate is a failure too.
func made<Pointer>(_ pointer: Pointer?, _ what: String) throws(EncoderFailure) -> Pointer {
  guard let pointer else { throw EncoderFailure(.encoding, "no memory for \(what)") }
  return pointer
}
