import CAV
import EncoderProtocol
import Glibc

/// The MP4 in the making: a file in memory, a picture track and a sound track.
///
/// What describes the file stands in front of its frames ("fast start"), so that it plays while it is loaded. Its header is written with
/// the first encoded picture, which tells what the encoder was.
final class Movie {
  private let order: ClipOrder
  private let file: Int32
  private let context: UnsafeMutablePointer<AVFormatContext>
  private let pictures: PictureTrack
  private let sound: SoundTrack?
  private let reader: PictureReader
  private var hasHeader = false
  /// Sound that was encoded before the first picture. Bounded by the encoder's own delay, which is under a second.
  private var early: [UnsafeMutablePointer<AVPacket>] = []
  private static let mostEarly = 2000
  /// The last picture, whose length the next one tells.
  private var held: UnsafeMutablePointer<AVPacket>?

  var encoderName: String { pictures.name }

  init(_ order: ClipOrder) throws(EncoderFailure) {
    guard let budget = BitBudget(order) else { throw .tooLarge }
    self.order = order
    file = cav_memory_file()
    if file < 0 { throw EncoderFailure(.encoding, "no memory for the clip") }
    // Named, because the way to fast start opens it a second time.
    let path = "/proc/self/fd/\(file)"
    var made: UnsafeMutablePointer<AVFormatContext>?
    try check(avformat_alloc_output_context2(&made, nil, "mp4", path), "the MP4 writer")
    context = try talknode_encoder.made(made, "the MP4 writer")
    reader = try PictureReader(order)
    pictures = try PictureTrack(order, bitRate: budget.video)
    sound = order.hasSound ? try SoundTrack(order, bitRate: budget.audio) : nil
    try check(avio_open(&context.pointee.pb, path, AVIO_FLAG_WRITE), "the clip's memory")
    for track in 0..<(sound == nil ? 1 : 2) {
      let stream = try talknode_encoder.made(avformat_new_stream(context, nil), "a track")
      if track == 1, let sound { try sound.describe(stream) }
    }
  }

  deinit {
    for packet in early + (held.map { [$0] } ?? []) { free(packet) }
    if context.pointee.pb != nil { avio_closep(&context.pointee.pb) }
    avformat_free_context(context)
    close(file)
  }

  private func free(_ packet: UnsafeMutablePointer<AVPacket>) {
    var packet: UnsafeMutablePointer<AVPacket>? = packet
    av_packet_free(&packet)
  }

  private func stream(_ index: Int) -> UnsafeMutablePointer<AVStream> { context.pointee.streams[index]! }

  // MARK: What comes in

  func add(_ picture: EncoderRequest.Picture, at ns: UInt64, _ bytes: [UInt8]) throws(EncoderFailure) {
    guard let frame = try reader.read(picture, bytes) else { return }
    try pictures.encode(frame, at: ns) { packet throws(EncoderFailure) in try take(picture: packet) }
  }

  func add(sound bytes: [UInt8], at ns: UInt64) throws(EncoderFailure) {
    guard let sound else { throw EncoderFailure(.badInput, "sound for a clip without") }
    try sound.encode(bytes, at: ns) { packet throws(EncoderFailure) in try take(sound: packet) }
  }

  /// The whole file.
  func finish() throws(EncoderFailure) -> [UInt8] {
    try pictures.finish { packet throws(EncoderFailure) in try take(picture: packet) }
    try sound?.finish { packet throws(EncoderFailure) in try take(sound: packet) }
    guard let last = held else { throw EncoderFailure(.badInput, "no frame could be shown") }
    let end = Int64(order.milliseconds) * Int64(PictureTrack.clock) / 1000
    let rest = end - last.pointee.pts
    // A clip that ended long before its time shows its last frame no longer than the others.
    last.pointee.duration = rest > 0 && rest <= 2 * Int64(PictureTrack.clock) ? rest : pictures.frameLength
    held = nil
    try write(last, track: 0, clock: PictureTrack.clock)
    try check(av_write_trailer(context), "the end of the clip")
    try check(avio_closep(&context.pointee.pb), "the clip's memory")
    return try contents()
  }

  private func contents() throws(EncoderFailure) -> [UInt8] {
    let size = Int(lseek(file, 0, SEEK_END))
    if size > order.maxBytes { throw .tooLarge }
    var bytes = [UInt8](repeating: 0, count: max(0, size))
    var offset = 0
    while offset < bytes.count {
      let count = bytes.withUnsafeMutableBytes {
        pread(file, $0.baseAddress! + offset, $0.count - offset, off_t(offset))
      }
      if count <= 0 { throw EncoderFailure(.encoding, "the clip's memory can't be read") }
      offset += count
    }
    return bytes
  }

  // MARK: What goes out

  /// Takes a packet of the picture track; it is its owner from here on.
  private func take(picture packet: UnsafeMutablePointer<AVPacket>) throws(EncoderFailure) {
    let before = held
    held = packet
    if !hasHeader {
      try pictures.describe(stream(0), packet)
      try writeHeader()
    }
    guard let before else { return }
    before.pointee.duration = packet.pointee.pts - before.pointee.pts
    try write(before, track: 0, clock: PictureTrack.clock)
  }

  private func take(sound packet: UnsafeMutablePointer<AVPacket>) throws(EncoderFailure) {
    guard hasHeader else {
      early.append(packet)
      if early.count > Self.mostEarly { throw EncoderFailure(.badInput, "sound without pictures") }
      return
    }
    try write(packet, track: 1, clock: Int32(sound?.rate ?? 1))
  }

  private func writeHeader() throws(EncoderFailure) {
    var options: OpaquePointer?
    av_dict_set(&options, "movflags", "+faststart", 0)
    defer { av_dict_free(&options) }
    try check(avformat_write_header(context, &options), "the clip's header")
    hasHeader = true
    let packets = early
    early = []
    for (index, packet) in packets.enumerated() {
      do throws(EncoderFailure) { try take(sound: packet) } catch {
        for left in packets[(index + 1)...] { free(left) }
        throw error
      }
    }
  }

  private func write(
    _ packet: UnsafeMutablePointer<AVPacket>, track: Int, clock: Int32
  ) throws(EncoderFailure) {
    defer { free(packet) }
    av_packet_rescale_ts(packet, AVRational(num: 1, den: clock), stream(track).pointee.time_base)
    packet.pointee.stream_index = Int32(track)
    try check(av_interleaved_write_frame(context, packet), "the clip")
    if avio_size(context.pointee.pb) > Int64(order.maxBytes) { throw .tooLarge }
  }
}
