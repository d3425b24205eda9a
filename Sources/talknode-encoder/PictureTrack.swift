import CAV
import EncoderProtocol
import Glibc

/// H.264 of the frames, with their own times.
///
/// There are no B-frames: what is shown has the order in which it is stored, which plays everywhere and in time with the sound. A hardware
/// encoder is used only when asked for; when it can't be opened, or fails or gives nothing for the first frames, these are encoded again
/// in software.
final class PictureTrack {
  typealias Take = (UnsafeMutablePointer<AVPacket>) throws(EncoderFailure) -> Void

  /// Ticks a second of the track's times.
  static let clock: Int32 = 90_000
  private static let software = ["libx264", "libopenh264"]
  private static let hardware = "h264_v4l2m2m"
  /// Frames that a hardware encoder may take before it gives the first picture.
  private static let patience = 16

  private(set) var name: String
  private var context: UnsafeMutablePointer<AVCodecContext>?
  private let order: ClipOrder
  private let bitRate: Int
  /// What the hardware has taken, until it has proved itself.
  private var unproved: [UnsafeMutablePointer<AVFrame>]?
  private var last: Int64 = -1

  /// How long a frame is shown when nothing else says, in ticks.
  var frameLength: Int64 { Int64(Self.clock) * 1000 / Int64(order.milliframes) }

  init(_ order: ClipOrder, bitRate: Int) throws(EncoderFailure) {
    self.order = order
    self.bitRate = bitRate
    if order.prefersHardware, let context = try? Self.open(Self.hardware, order, bitRate) {
      self.context = context
      name = Self.hardware
      unproved = []
    } else {
      (name, context) = try Self.openSoftware(order, bitRate)
    }
  }

  deinit {
    for frame in unproved ?? [] { free(frame) }
    avcodec_free_context(&context)
  }

  private func free(_ frame: UnsafeMutablePointer<AVFrame>) {
    var frame: UnsafeMutablePointer<AVFrame>? = frame
    av_frame_free(&frame)
  }

  private static func openSoftware(
    _ order: ClipOrder, _ bitRate: Int
  ) throws(EncoderFailure) -> (String, UnsafeMutablePointer<AVCodecContext>) {
    for name in software where avcodec_find_encoder_by_name(name) != nil {
      return (name, try open(name, order, bitRate))
    }
    throw EncoderFailure(.noEncoder, "libavcodec has no encoder for H.264 here")
  }

  private static func open(
    _ name: String, _ order: ClipOrder, _ bitRate: Int
  ) throws(EncoderFailure) -> UnsafeMutablePointer<AVCodecContext> {
    guard let codec = avcodec_find_encoder_by_name(name) else {
      throw EncoderFailure(.noEncoder, "libavcodec has no \(name) here")
    }
    let context = try made(avcodec_alloc_context3(codec), "the encoder")
    context.pointee.width = Int32(order.width)
    context.pointee.height = Int32(order.height)
    context.pointee.pix_fmt = AV_PIX_FMT_YUV420P
    context.pointee.time_base = AVRational(num: 1, den: clock)
    context.pointee.framerate = AVRational(num: Int32(order.milliframes), den: 1000)
    context.pointee.max_b_frames = 0
    // Two seconds between pictures that stand for themselves.
    context.pointee.gop_size = Int32(max(1, order.milliframes / 500))
    context.pointee.color_range = AVCOL_RANGE_MPEG
    context.pointee.colorspace = AVCOL_SPC_SMPTE170M
    context.pointee.color_primaries = AVCOL_PRI_SMPTE170M
    context.pointee.color_trc = AVCOL_TRC_SMPTE170M
    context.pointee.thread_count = Int32(min(4, max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN)))))
    if name == "libx264" {
      // Constant quality under a ceiling: a still scene is small, a busy one keeps to the limit.
      av_opt_set(context.pointee.priv_data, "preset", "veryfast", 0)
      av_opt_set(context.pointee.priv_data, "crf", "23", 0)
      context.pointee.rc_max_rate = Int64(bitRate)
      context.pointee.rc_buffer_size = Int32(clamping: Int(Double(bitRate) * BitBudget.reserve))
    } else {
      context.pointee.bit_rate = Int64(bitRate / 10 * 8)
      context.pointee.rc_max_rate = Int64(bitRate)
    }
    do throws(EncoderFailure) { try check(avcodec_open2(context, codec, nil), name) } catch {
      var failed: UnsafeMutablePointer<AVCodecContext>? = context
      avcodec_free_context(&failed)
      throw error
    }
    return context
  }

  // MARK: Frames in, packets out

  func encode(_ frame: UnsafeMutablePointer<AVFrame>, at ns: UInt64, _ take: Take) throws(EncoderFailure) {
    let time = Int64(ns / 1000) * Int64(Self.clock) / 1_000_000
    if time <= last { throw EncoderFailure(.badInput, "a frame that is not later than the one before") }
    last = time
    frame.pointee.pts = time
    frame.pointee.pict_type = AV_PICTURE_TYPE_NONE
    guard unproved != nil else { return try send(frame, take) }
    try unproved?.append(made(av_frame_clone(frame), "a frame"))
    var hasPicture = false
    do throws(EncoderFailure) {
      try send(frame) { packet throws(EncoderFailure) in
        hasPicture = true
        try take(packet)
      }
    } catch {
      if hasPicture { throw error }
      return try fallBack(take)
    }
    if hasPicture { proved() } else if unproved?.count ?? 0 >= Self.patience { try fallBack(take) }
  }

  func finish(_ take: Take) throws(EncoderFailure) {
    if unproved != nil {
      var hasPicture = false
      do throws(EncoderFailure) {
        try send(nil) { packet throws(EncoderFailure) in
          hasPicture = true
          try take(packet)
        }
        if hasPicture { return proved() }
      } catch {
        if hasPicture { throw error }
      }
      try fallBack(take)
    }
    try send(nil, take)
  }

  private func proved() {
    for frame in unproved ?? [] { free(frame) }
    unproved = nil
  }

  /// The hardware has failed before it gave anything: what it was given goes to software.
  private func fallBack(_ take: Take) throws(EncoderFailure) {
    avcodec_free_context(&context)
    (name, context) = try Self.openSoftware(order, bitRate)
    let frames = unproved ?? []
    unproved = nil
    defer { for frame in frames { free(frame) } }
    for frame in frames { try send(frame, take) }
  }

  private func send(_ frame: UnsafeMutablePointer<AVFrame>?, _ take: Take) throws(EncoderFailure) {
    try check(avcodec_send_frame(context, frame), name)
    while true {
      var packet: UnsafeMutablePointer<AVPacket>? = try made(av_packet_alloc(), "a picture")
      let result = avcodec_receive_packet(context, packet)
      if result < 0 {
        av_packet_free(&packet)
        if result == cav_again || result == cav_end { return }
        try check(result, name)
      }
      if let packet { try take(packet) }
    }
  }

  // MARK: What the file says of it

  /// Describes the track from its first packet: how to decode it is told there, by every encoder alike.
  func describe(
    _ stream: UnsafeMutablePointer<AVStream>, _ packet: UnsafeMutablePointer<AVPacket>
  ) throws(EncoderFailure) {
    let parameters = stream.pointee.codecpar!
    try check(avcodec_parameters_from_context(parameters, context), "the picture track")
    stream.pointee.time_base = AVRational(num: 1, den: Self.clock)
    stream.pointee.avg_frame_rate = AVRational(num: Int32(order.milliframes), den: 1000)
    if parameters.pointee.extradata_size > 0 { return }
    var filter: UnsafeMutablePointer<AVBSFContext>?
    try check(av_bsf_alloc(av_bsf_get_by_name("extract_extradata"), &filter), "the picture track")
    defer { av_bsf_free(&filter) }
    try check(avcodec_parameters_copy(filter?.pointee.par_in, parameters), "the picture track")
    try check(av_bsf_init(filter), "the picture track")
    var copy: UnsafeMutablePointer<AVPacket>? = try made(av_packet_clone(packet), "the picture track")
    defer { av_packet_free(&copy) }
    try check(av_bsf_send_packet(filter, copy), "the picture track")
    try check(av_bsf_receive_packet(filter, copy), "the picture track")
    var size = 0
    guard let data = av_packet_get_side_data(copy, AV_PKT_DATA_NEW_EXTRADATA, &size), size > 0 else {
      throw EncoderFailure(.encoding, "\(name) does not say how its pictures are decoded")
    }
    let kept = try made(av_mallocz(size + Int(AV_INPUT_BUFFER_PADDING_SIZE)), "the picture track")
    memcpy(kept, data, size)
    parameters.pointee.extradata = kept.assumingMemoryBound(to: UInt8.self)
    parameters.pointee.extradata_size = Int32(size)
  }
}
