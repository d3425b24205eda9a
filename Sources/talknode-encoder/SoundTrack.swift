import CAV
import EncoderProtocol
import Glibc

/// AAC of the sound. Where the first samples come after the clip's beginning, or later ones after a gap, silence takes the place.
final class SoundTrack {
  typealias Take = (UnsafeMutablePointer<AVPacket>) throws(EncoderFailure) -> Void

  /// Samples a second of the track.
  let rate: Int
  private let order: ClipOrder
  private var context: UnsafeMutablePointer<AVCodecContext>?
  private var frame: UnsafeMutablePointer<AVFrame>?
  private var converter: OpaquePointer?
  /// Samples of each channel that do not fill a frame yet.
  private var pending: [[Float]]
  /// Samples of the input, and of the output, so far.
  private var taken: Int64 = 0
  private var encoded: Int64 = 0

  /// Below this a time is taken for the jitter of a sound card's clock, in seconds.
  private static let jitter = 0.02
  /// What AAC can say. Others become 48,000.
  private static let rates = [
    96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8000,
  ]

  init(_ order: ClipOrder, bitRate: Int) throws(EncoderFailure) {
    self.order = order
    rate = Self.rates.contains(order.sampleRate) ? order.sampleRate : 48_000
    pending = [[Float]](repeating: [], count: order.channels)
    guard let codec = avcodec_find_encoder(AV_CODEC_ID_AAC) else {
      throw EncoderFailure(.noEncoder, "libavcodec has no encoder for AAC here")
    }
    let context = try made(avcodec_alloc_context3(codec), "the sound encoder")
    self.context = context
    context.pointee.sample_fmt = AV_SAMPLE_FMT_FLTP
    context.pointee.sample_rate = Int32(rate)
    context.pointee.bit_rate = Int64(bitRate)
    context.pointee.time_base = AVRational(num: 1, den: Int32(rate))
    // What follows the file's description instead of standing in every packet.
    context.pointee.flags |= AV_CODEC_FLAG_GLOBAL_HEADER
    av_channel_layout_default(&context.pointee.ch_layout, Int32(order.channels))
    try check(avcodec_open2(context, codec, nil), "AAC")
    var (from, to) = (context.pointee.ch_layout, context.pointee.ch_layout)
    try check(
      swr_alloc_set_opts2(
        &converter, &to, AV_SAMPLE_FMT_FLTP, Int32(rate), &from, AV_SAMPLE_FMT_S16, Int32(order.sampleRate), 0, nil),
      "the sound's conversion")
    try check(swr_init(converter), "the sound's conversion")
    frame = try made(av_frame_alloc(), "sound")
  }

  deinit {
    av_frame_free(&frame)
    swr_free(&converter)
    avcodec_free_context(&context)
  }

  func describe(_ stream: UnsafeMutablePointer<AVStream>) throws(EncoderFailure) {
    try check(avcodec_parameters_from_context(stream.pointee.codecpar, context), "the sound track")
    stream.pointee.time_base = AVRational(num: 1, den: Int32(rate))
  }

  func encode(_ bytes: [UInt8], at ns: UInt64, _ take: Take) throws(EncoderFailure) {
    let each = 2 * order.channels
    if bytes.count % each != 0 { throw EncoderFailure(.badInput, "half a sample") }
    let ahead = Double(ns) / 1e9 - Double(taken) / Double(order.sampleRate)
    if ahead > Self.jitter {
      // At most what the clip may have: times are bounded by the protocol.
      var missing = Int(ahead * Double(order.sampleRate))
      while missing > 0 {
        let part = min(missing, order.sampleRate)
        try convert([UInt8](repeating: 0, count: part * each), take)
        missing -= part
      }
    }
    let late = Int(-ahead * Double(order.sampleRate))
    let skipped = ahead < -Self.jitter ? min(late, bytes.count / each) : 0
    try convert(skipped == 0 ? bytes : Array(bytes[(skipped * each)...]), take)
  }

  func finish(_ take: Take) throws(EncoderFailure) {
    try convert([], take)
    if !pending[0].isEmpty { try encodeFrame(pending[0].count, take) }
    try send(nil, take)
  }

  /// Converts samples, or what the converter still has when there are none, and encodes every full frame.
  private func convert(_ bytes: [UInt8], _ take: Take) throws(EncoderFailure) {
    let count = bytes.count / (2 * order.channels)
    taken += Int64(count)
    let room = Int(swr_get_out_samples(converter, Int32(count)))
    if room > 0 {
      let converted = UnsafeMutablePointer<Float>.allocate(capacity: room * order.channels)
      defer { converted.deallocate() }
      var planes = (0..<order.channels).map {
        Optional(UnsafeMutableRawPointer(converted + $0 * room).assumingMemoryBound(to: UInt8.self))
      }
      let got = bytes.withUnsafeBufferPointer { bytes in
        var input: UnsafePointer<UInt8>? = bytes.isEmpty ? nil : bytes.baseAddress
        return bytes.isEmpty
          ? swr_convert(converter, &planes, Int32(room), nil, 0)
          : swr_convert(converter, &planes, Int32(room), &input, Int32(count))
      }
      try check(got, "the sound's conversion")
      for channel in 0..<order.channels {
        pending[channel] += UnsafeBufferPointer(start: converted + channel * room, count: Int(got))
      }
    }
    let size = Int(context?.pointee.frame_size ?? 1024)
    while pending[0].count >= size { try encodeFrame(size, take) }
  }

  private func encodeFrame(_ count: Int, _ take: Take) throws(EncoderFailure) {
    guard let frame, let context else { return }
    av_frame_unref(frame)
    frame.pointee.format = AV_SAMPLE_FMT_FLTP.rawValue
    frame.pointee.sample_rate = Int32(rate)
    frame.pointee.nb_samples = Int32(count)
    try check(av_channel_layout_copy(&frame.pointee.ch_layout, &context.pointee.ch_layout), "sound")
    try check(av_frame_get_buffer(frame, 0), "sound")
    for channel in 0..<order.channels {
      let plane = try made(cav_plane(frame, Int32(channel)), "sound")
      pending[channel].withUnsafeBytes { _ = memcpy(plane, $0.baseAddress!, count * 4) }
      pending[channel].removeFirst(count)
    }
    frame.pointee.pts = encoded
    encoded += Int64(count)
    try send(frame, take)
  }

  private func send(_ frame: UnsafeMutablePointer<AVFrame>?, _ take: Take) throws(EncoderFailure) {
    try check(avcodec_send_frame(context, frame), "AAC")
    while true {
      var packet: UnsafeMutablePointer<AVPacket>? = try made(av_packet_alloc(), "sound")
      let result = avcodec_receive_packet(context, packet)
      if result < 0 {
        av_packet_free(&packet)
        if result == cav_again || result == cav_end { return }
        try check(result, "AAC")
      }
      if let packet { try take(packet) }
    }
  }
}
