import CAV
import EncoderProtocol
import Glibc

/// Makes frames of the ordered size, in I420 and limited range, of what comes.
final class PictureReader {
  private let order: ClipOrder
  private var frame: UnsafeMutablePointer<AVFrame>?
  private var decoder: UnsafeMutablePointer<AVCodecContext>?
  private var decoded: UnsafeMutablePointer<AVFrame>?
  private var scaler: OpaquePointer?

  /// The largest JPEG that is decoded, in pixels.
  private static let mostPixels: Int64 = 80_000_000

  init(_ order: ClipOrder) throws(EncoderFailure) {
    self.order = order
    frame = try made(av_frame_alloc(), "a frame")
  }

  deinit {
    av_frame_free(&frame)
    av_frame_free(&decoded)
    avcodec_free_context(&decoder)
    sws_freeContext(scaler)
  }

  /// The frame, which is good until the next call; nil for a JPEG that does not decode cleanly, which a camera may send now and then.
  func read(
    _ picture: EncoderRequest.Picture, _ bytes: [UInt8]
  ) throws(EncoderFailure) -> UnsafeMutablePointer<AVFrame>? {
    switch picture {
    case .i420:
      if bytes.count != order.frameBytes { throw EncoderFailure(.badInput, "a frame of another size") }
      let frame = try empty()
      bytes.withUnsafeBufferPointer { copy($0.baseAddress!, to: frame) }
      return frame
    case .jpeg:
      guard let decoded = try decode(bytes) else { return nil }
      return try convert(decoded)
    }
  }

  /// A frame to be filled. The encoder may still hold the one before.
  private func empty() throws(EncoderFailure) -> UnsafeMutablePointer<AVFrame> {
    let frame = try made(frame, "a frame")
    av_frame_unref(frame)
    frame.pointee.format = AV_PIX_FMT_YUV420P.rawValue
    frame.pointee.width = Int32(order.width)
    frame.pointee.height = Int32(order.height)
    frame.pointee.color_range = AVCOL_RANGE_MPEG
    frame.pointee.colorspace = AVCOL_SPC_SMPTE170M
    try check(av_frame_get_buffer(frame, 0), "a frame")
    return frame
  }

  private func copy(_ bytes: UnsafePointer<UInt8>, to frame: UnsafeMutablePointer<AVFrame>) {
    var from = bytes
    for plane in 0..<3 as Range<Int32> {
      let (width, height) = plane == 0 ? (order.width, order.height) : (order.width / 2, order.height / 2)
      guard var row = cav_plane(frame, plane) else { return }
      for _ in 0..<height {
        memcpy(row, from, width)
        row += Int(cav_stride(frame, plane))
        from += width
      }
    }
  }

  private func decode(_ bytes: [UInt8]) throws(EncoderFailure) -> UnsafeMutablePointer<AVFrame>? {
    if decoder == nil {
      guard let codec = avcodec_find_decoder(AV_CODEC_ID_MJPEG) else {
        throw EncoderFailure(.noEncoder, "libavcodec has no decoder for JPEG here")
      }
      let context = try made(avcodec_alloc_context3(codec), "the JPEG decoder")
      decoder = context
      context.pointee.max_pixels = Self.mostPixels
      context.pointee.thread_count = 1
      // Half a picture is none.
      context.pointee.err_recognition = cav_explode
      try check(avcodec_open2(context, codec, nil), "the JPEG decoder")
      decoded = try made(av_frame_alloc(), "a frame")
    }
    if bytes.isEmpty { return nil }
    var packet: UnsafeMutablePointer<AVPacket>? = try made(av_packet_alloc(), "a frame")
    defer { av_packet_free(&packet) }
    // It pads what it allocates, as the decoder wants.
    try check(av_new_packet(packet, Int32(bytes.count)), "a frame")
    packet?.pointee.data.update(from: bytes, count: bytes.count)
    if avcodec_send_packet(decoder, packet) < 0 || avcodec_receive_frame(decoder, decoded) < 0 { return nil }
    return decoded
  }

  private func convert(
    _ source: UnsafeMutablePointer<AVFrame>
  ) throws(EncoderFailure) -> UnsafeMutablePointer<AVFrame> {
    let frame = try empty()
    let format = AVPixelFormat(rawValue: source.pointee.format)
    scaler = sws_getCachedContext(
      scaler, source.pointee.width, source.pointee.height, format, Int32(order.width), Int32(order.height),
      AV_PIX_FMT_YUV420P, SWS_BILINEAR, nil, nil, nil)
    let context = try made(scaler, "the frame's conversion")
    let full = source.pointee.color_range != AVCOL_RANGE_MPEG
    try check(cav_scale(context, source, frame, full ? 1 : 0), "the frame's conversion")
    return frame
  }
}
