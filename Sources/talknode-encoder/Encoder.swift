/// talknode-encoder: makes an MP4 of the frames and the sound that come on its standard input, and writes it to its standard output
/// (EncoderProtocol). A program of its own, so that neither libavcodec's memory nor its crashes are the daemon's.
///
/// It reads and writes no file, has one clip a run, and ends when its input does. The clip is made in memory that only this process
/// can see, at most as much as the clip may have.
import CAV
import EncoderProtocol
import Glibc

@main
struct Encoder {
  static func main() {
    // No picture may stay behind in a core file.
    var none = rlimit(rlim_cur: 0, rlim_max: 0)
    setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &none)
    signal(SIGPIPE, SIG_IGN)
    av_log_set_level(AV_LOG_ERROR)
    do throws(EncoderFailure) {
      if let clip = try run() { try reply(.movie(clip)) }
    } catch {
      try? reply(.failed(error.kind, error.reason))
      exit(1)
    }
  }

  /// Reads until the end is asked for: the clip, or nil when it is not wanted.
  private static func run() throws(EncoderFailure) -> [UInt8]? {
    var reader = EncoderMessageReader(longest: EncoderMessage.longestRequest)
    var movie: Movie?
    // Frames are large: fewer turns with a wider pipe. Where that is not granted it is as wide as it was.
    cav_widen_pipe(0, 1 << 20)
    let room = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 18, alignment: 16)
    defer { room.deallocate() }
    while true {
      let count = read(0, room.baseAddress, room.count)
      if count < 0 && errno == EINTR { continue }
      if count <= 0 { return nil }
      for message in try reader.next(UnsafeRawBufferPointer(rebasing: room[..<count])) {
        let request: EncoderRequest
        do { request = try EncoderRequest(message) } catch { throw EncoderFailure(.badInput, error.description) }
        switch (request, movie) {
        case (.begin(let order), nil):
          let begun = try Movie(order)
          movie = begun
          try reply(.ready(encoder: begun.encoderName))
        case (.frame(let picture, let at, let bytes), let movie?): try movie.add(picture, at: at, bytes)
        case (.sound(let at, let bytes), let movie?): try movie.add(sound: bytes, at: at)
        case (.finish, let movie?): return try movie.finish()
        default: throw EncoderFailure(.badInput, "messages in a wrong order")
        }
      }
    }
  }

  private static func reply(_ reply: EncoderReply) throws(EncoderFailure) {
    let bytes = reply.message.wire
    var offset = 0
    while offset < bytes.count {
      let count = bytes.withUnsafeBytes { write(1, $0.baseAddress! + offset, $0.count - offset) }
      if count < 0 && errno == EINTR { continue }
      if count <= 0 { throw EncoderFailure(.encoding, "nobody reads the clip") }
      offset += count
    }
  }
}

extension EncoderMessageReader {
  fileprivate mutating func next(_ bytes: UnsafeRawBufferPointer) throws(EncoderFailure) -> [EncoderMessage] {
    do { return try feed(bytes) } catch { throw EncoderFailure(.badInput, error.description) }
  }
}
