/// How a device's samples lie in memory.
public enum SampleFormat: String, Sendable, CaseIterable {
  case u8
  case s16le
  /// 24 bits in three bytes.
  case s24le
  /// 24 bits in the lower three bytes of four.
  case s24in32le
  case s32le
  case float32le

  /// Bytes of one sample of one channel.
  public var size: Int {
    switch self {
    case .u8: 1
    case .s16le: 2
    case .s24le: 3
    case .s24in32le, .s32le, .float32le: 4
    }
  }
}

/// What a device is opened with: rate, channels and sample format, interleaved.
public struct AudioFormat: Sendable, Equatable, CustomStringConvertible {
  public var sample: SampleFormat
  /// Frames a second.
  public var rate: Int
  public var channels: Int

  public init(_ sample: SampleFormat, rate: Int, channels: Int) {
    self.sample = sample
    self.rate = rate
    self.channels = channels
  }

  /// Bytes of one sample of every channel.
  public var frameSize: Int { sample.size * channels }
  public var description: String { "\(rate) Hz, \(channels) channel\(channels == 1 ? "" : "s"), \(sample.rawValue)" }

  /// The frames of `bytes`, mixed down to mono: the mean of the channels, which never clips and keeps a voice that is on all
  /// of them at its level. Bytes of an unfinished frame at the end are dropped.
  public func mono(_ bytes: UnsafeRawBufferPointer) -> [Float] {
    guard channels > 0 else { return [] }
    let frames = bytes.count / frameSize
    return [Float](unsafeUninitializedCapacity: frames) { out, count in
      var offset = 0
      let scale = 1 / Float(channels)
      for frame in 0..<frames {
        var sum: Float = 0
        for _ in 0..<channels {
          sum += sample.load(bytes, at: offset)
          offset += sample.size
        }
        out[frame] = sum * scale
      }
      count = frames
    }
  }

  /// The bytes of mono samples, the same on every channel, rounded and clipped.
  public func bytes(_ mono: [Float]) -> [UInt8] {
    let size = frameSize
    return [UInt8](unsafeUninitializedCapacity: mono.count * size) { buffer, count in
      let raw = UnsafeMutableRawBufferPointer(buffer)
      var offset = 0
      for value in mono {
        for _ in 0..<channels {
          sample.store(value, raw, at: offset)
          offset += sample.size
        }
      }
      count = offset
    }
  }
}

extension SampleFormat {
  @inline(__always)
  fileprivate func load(_ bytes: UnsafeRawBufferPointer, at offset: Int) -> Float {
    switch self {
    case .u8: return (Float(bytes[offset]) - 128) / 128
    case .s16le:
      return Float(Int16(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: Int16.self))) / 32768
    case .s24le:
      let low = UInt32(bytes[offset]) << 8 | UInt32(bytes[offset + 1]) << 16 | UInt32(bytes[offset + 2]) << 24
      return Float(Int32(bitPattern: low)) / 2_147_483_648
    case .s24in32le:
      let value = UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self))
      return Float(Int32(bitPattern: value << 8)) / 2_147_483_648
    case .s32le:
      return Float(Int32(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: Int32.self))) / 2_147_483_648
    case .float32le:
      let bits = UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self))
      let value = Float(bitPattern: bits)
      return value.isFinite ? value : 0
    }
  }

  @inline(__always)
  fileprivate func store(_ value: Float, _ bytes: UnsafeMutableRawBufferPointer, at offset: Int) {
    switch self {
    case .u8: bytes[offset] = UInt8(clamping: Int(Int16(sample: value) >> 8) + 128)
    case .s16le: bytes.storeBytes(of: Int16(sample: value).littleEndian, toByteOffset: offset, as: Int16.self)
    case .s24le:
      let bits = UInt32(bitPattern: Self.scaled(value, 8_388_608))
      bytes[offset] = UInt8(truncatingIfNeeded: bits)
      bytes[offset + 1] = UInt8(truncatingIfNeeded: bits >> 8)
      bytes[offset + 2] = UInt8(truncatingIfNeeded: bits >> 16)
    case .s24in32le:
      bytes.storeBytes(of: Self.scaled(value, 8_388_608).littleEndian, toByteOffset: offset, as: Int32.self)
    case .s32le:
      bytes.storeBytes(of: Self.scaled(value, 2_147_483_648).littleEndian, toByteOffset: offset, as: Int32.self)
    case .float32le:
      let clean = value.isFinite ? max(-1, min(1, value)) : 0
      bytes.storeBytes(of: clean.bitPattern.littleEndian, toByteOffset: offset, as: UInt32.self)
    }
  }

  /// `value` × `full`, rounded and clipped to -full…full-1; silence for what is no number.
  private static func scaled(_ value: Float, _ full: Double) -> Int32 {
    let scaled = (Double(value) * full).rounded()
    return scaled.isNaN ? 0 : Int32(max(-full, min(full - 1, scaled)))
  }
}
