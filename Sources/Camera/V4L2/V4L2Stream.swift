import CV4L2
import Glibc
import System

/// A V4L2 device that streams into memory shared with the driver. Lives on one thread.
final class V4L2Stream {
  let format: FrameFormat
  private let device: V4L2Device
  private var buffers: [UnsafeMutableRawBufferPointer] = []
  private var isOn = false

  /// Two more than a driver needs: one is being copied, one is being filled, and a late thread loses none.
  private static let bufferCount: UInt32 = 4
  private static let kind = V4L2_BUF_TYPE_VIDEO_CAPTURE.rawValue
  /// Frames smaller than this are none, whatever the driver says.
  static let leastBytes = 128

  /// Opens the best mode that the device really does. Throws `busy`, `unplugged`, `formatUnsupported` or what the last try was refused with.
  static func open(_ device: V4L2Device, _ wish: CaptureWish) throws(CameraError) -> V4L2Stream {
    let offered = device.formats()
    // A driver is asked for a format's sizes only where they matter: some have hundreds.
    let wanted = offered.filter { pixels in
      FormatChoice.isReadable(pixels) && wish.formats?.contains(pixels) != false
    }
    let modes = FormatChoice.order(device.modes(of: wanted), for: wish)
    if modes.isEmpty {
      let names = Set(offered.map(\.description)).sorted().joined(separator: ", ")
      throw CameraError(
        .formatUnsupported, "The camera \(device.path) offers only formats that are not read here: \(names).")
    }
    var failure: CameraError?
    for mode in modes {
      do throws(CameraError) { return try V4L2Stream(device, mode, wish) } catch {
        // Somebody has it, or it is gone: no other format will help.
        if error.code == .busy || error.code == .unplugged { throw error }
        failure = error
      }
    }
    throw failure!
  }

  private init(_ device: V4L2Device, _ mode: CaptureMode, _ wish: CaptureWish) throws(CameraError) {
    self.device = device
    format = try Self.set(mode, wish, on: device)
    do throws(CameraError) { try mapBuffers() } catch {
      release()
      throw error
    }
  }

  private static func set(
    _ mode: CaptureMode, _ wish: CaptureWish, on device: V4L2Device
  ) throws(CameraError) -> FrameFormat {
    let size = mode.size ?? Size(wish.width, wish.width * 3 / 4)
    var answer = v4l2_format()
    answer.type = kind
    answer.fmt.pix.width = UInt32(size.width)
    answer.fmt.pix.height = UInt32(size.height)
    answer.fmt.pix.pixelformat = mode.pixels.rawValue
    answer.fmt.pix.field = V4L2_FIELD_NONE.rawValue
    let code = cv4l2_s_fmt(device.descriptor, &answer)
    if code != 0 { throw device.failure(-code, "set to \(mode.pixels) \(size)") }
    let pix = answer.fmt.pix
    // The driver answers what it will do, which need not be what was asked.
    guard pix.pixelformat == mode.pixels.rawValue else {
      throw CameraError(.refused, "The camera \(device.path) offers \(mode.pixels) and does not do it.")
    }
    let done = Size(Int(pix.width), Int(pix.height))
    guard done.isSane, pix.sizeimage > 0, pix.sizeimage <= 512 << 20 else {
      throw CameraError(.refused, "The camera \(device.path) names an impossible size.")
    }
    var stride = Int(pix.bytesperline)
    if let least = mode.pixels.leastStride(width: done.width), stride < least { stride = least }
    return FrameFormat(
      mode.pixels, done, stride: mode.pixels.isJPEG ? 0 : stride, rate: setRate(mode, on: device),
      range: range(of: pix, mode.pixels)
    )
  }

  /// The most frames a second, for the last user may have left it at one.
  private static func setRate(_ mode: CaptureMode, on device: V4L2Device) -> Double? {
    var answer = v4l2_streamparm()
    answer.type = kind
    guard cv4l2_g_parm(device.descriptor, &answer) == 0 else { return mode.rate }
    let canSet = answer.parm.capture.capability & UInt32(V4L2_CAP_TIMEPERFRAME) != 0
    if canSet {
      // 30 is enough for a clip, and exposes twice as long as 60 in a dim room.
      let rate = min(mode.rate ?? 30, 30)
      answer.parm.capture.timeperframe.numerator = 1000
      answer.parm.capture.timeperframe.denominator = UInt32(max(1, (rate * 1000).rounded()))
      _ = cv4l2_s_parm(device.descriptor, &answer)
    }
    let interval = answer.parm.capture.timeperframe
    guard interval.numerator > 0, interval.denominator > 0 else { return mode.rate }
    return Double(interval.denominator) / Double(interval.numerator)
  }

  private static func range(of pix: v4l2_pix_format, _ pixels: PixelFormat) -> ColourRange {
    // By default what has no colour encoding is full, and so is grey: its numbers are the sensor's.
    let isFullByDefault = pixels.isGrey || pix.colorspace == V4L2_COLORSPACE_JPEG.rawValue
    let isFull =
      pix.quantization == V4L2_QUANTIZATION_FULL_RANGE.rawValue
      || pix.quantization == V4L2_QUANTIZATION_DEFAULT.rawValue && isFullByDefault
    let is709 =
      pix.ycbcr_enc == V4L2_YCBCR_ENC_709.rawValue
      || pix.ycbcr_enc == V4L2_YCBCR_ENC_DEFAULT.rawValue && pix.colorspace == V4L2_COLORSPACE_REC709.rawValue
    return ColourRange(isFull: isFull, is709: is709)
  }

  private func mapBuffers() throws(CameraError) {
    let descriptor = device.descriptor
    var request = v4l2_requestbuffers()
    request.count = Self.bufferCount
    request.type = Self.kind
    request.memory = V4L2_MEMORY_MMAP.rawValue
    var code = cv4l2_reqbufs(descriptor, &request)
    if code != 0 { throw device.failure(-code, "given memory for frames") }
    guard request.count > 0 else { throw device.failure(ENOMEM, "given memory for frames") }
    for index in 0..<request.count {
      var buffer = makeBuffer(index)
      code = cv4l2_querybuf(descriptor, &buffer)
      if code != 0 { throw device.failure(-code, "given memory for frames") }
      let address = mmap(
        nil, Int(buffer.length), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, off_t(buffer.m.offset))
      guard let address, address != MAP_FAILED else { throw device.failure(errno, "given memory for frames") }
      buffers.append(UnsafeMutableRawBufferPointer(start: address, count: Int(buffer.length)))
      code = cv4l2_qbuf(descriptor, &buffer)
      if code != 0 { throw device.failure(-code, "given memory for frames") }
    }
    var kind = Int32(Self.kind)
    code = cv4l2_streamon(descriptor, &kind)
    if code != 0 { throw device.failure(-code, "started with \(format)") }
    isOn = true
  }

  private func makeBuffer(_ index: UInt32) -> v4l2_buffer {
    var buffer = v4l2_buffer()
    buffer.type = Self.kind
    buffer.memory = V4L2_MEMORY_MMAP.rawValue
    buffer.index = index
    return buffer
  }

  /// Delivers frames until the flag is raised. Throws why they have ended. Who gets the frames watches for their absence.
  func run(until flag: StopFlag, _ sink: FrameSink) throws(CameraError) {
    defer { release() }
    while true {
      var entries = [
        pollfd(fd: device.descriptor, events: Int16(POLLIN), revents: 0),
        pollfd(fd: flag.descriptor, events: Int16(POLLIN), revents: 0),
      ]
      let ready = poll(&entries, 2, 1000)
      if ready < 0 && errno != EINTR { throw device.failure(errno, "waited for") }
      if entries[1].revents != 0 { return }
      if ready <= 0 || entries[0].revents == 0 { continue }
      var buffer = makeBuffer(0)
      let code = cv4l2_dqbuf(device.descriptor, &buffer)
      if code == -EAGAIN {
        // An error without a buffer: the driver has given up (unplugged, or a fatal error of the stream).
        if entries[0].revents & Int16(POLLERR | POLLHUP) != 0 { throw lost(EIO) }
        continue
      }
      if code != 0 { throw lost(-code) }
      deliver(buffer, sink)
      let returned = cv4l2_qbuf(device.descriptor, &buffer)
      if returned != 0 { throw lost(-returned) }
    }
  }

  private func lost(_ code: Int32) -> CameraError {
    if code == ENODEV || !Files.exists(device.path) {
      return CameraError(
        .unplugged, "The camera \(device.path) was unplugged.", remedy: "Plug it in again: talknode camera list")
    }
    return CameraError(
      .stuck, "The camera \(device.path) stopped streaming: \(String(cString: strerror(code))).",
      remedy: "Try again; if it stays so, unplug it and plug it in again.")
  }

  private func deliver(_ buffer: v4l2_buffer, _ sink: FrameSink) {
    guard sink.hasRoom, buffers.indices.contains(Int(buffer.index)) else { return }
    let memory = buffers[Int(buffer.index)]
    let count = min(Int(buffer.bytesused), memory.count)
    let bytes = [UInt8](unsafeUninitializedCapacity: count) { room, initialized in
      if count > 0 {
        room.baseAddress!.update(from: memory.baseAddress!.assumingMemoryBound(to: UInt8.self), count: count)
      }
      initialized = count
    }
    let isMonotonic = buffer.flags & kCV4L2BufFlagTimestampMask == kCV4L2BufFlagTimestampMonotonic
    let now = Monotonic.nanoseconds()
    let stamp = isMonotonic ? Self.credible(buffer.timestamp, now: now) : nil
    let least = format.pixels.leastBytes(width: format.size.width, height: format.size.height, stride: format.stride)
    sink(
      .frame(
        Frame(
          format, bytes, atNs: stamp ?? now, sequence: buffer.sequence,
          isMarkedDamaged: buffer.flags & kCV4L2BufFlagError != 0 || count < max(least ?? 0, Self.leastBytes))))
  }

  /// A driver's time in nanoseconds; nil when it can't be the monotonic clock's: one of the future or of long ago, or none at all.
  static func credible(_ time: timeval, now: UInt64) -> UInt64? {
    guard time.tv_sec >= 0, UInt64(time.tv_sec) <= now / 1_000_000_000 + 1, (0..<1_000_000).contains(time.tv_usec)
    else {
      return nil
    }
    let stamp = UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_usec) * 1000
    return stamp > 0 && stamp <= now + 5_000_000 && stamp + 10_000_000_000 > now ? stamp : nil
  }

  /// Stops streaming and gives the memory back.
  private func release() {
    if isOn {
      var kind = Int32(Self.kind)
      _ = cv4l2_streamoff(device.descriptor, &kind)
      isOn = false
    }
    for buffer in buffers { munmap(buffer.baseAddress, buffer.count) }
    buffers = []
    var request = v4l2_requestbuffers()
    request.type = Self.kind
    request.memory = V4L2_MEMORY_MMAP.rawValue
    _ = cv4l2_reqbufs(device.descriptor, &request)
  }

  deinit { release() }
}
