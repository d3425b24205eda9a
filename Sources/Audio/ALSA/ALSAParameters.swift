import CALSA
import Glibc
import System

/// An open ALSA device and what it was set to. Belongs to one thread.
struct ALSADevice {
  let pcm: OpaquePointer
  let format: AudioFormat
  let reason: String
  /// Frames of the device's own buffer.
  let bufferFrames: Int

  /// Rates in the order in which they are tried. Speech needs none above 48 kHz.
  static let rates = [48_000, 44_100, 32_000, 96_000, 16_000, 24_000, 22_050, 8_000, 192_000, 88_200]

  /// Opens `name` without waiting, and sets it to what it does by itself: ALSA's own rate conversion is forbidden, so that a rate that
  /// the device refuses is refused here and the next one is tried.
  static func open(
    _ name: String, _ direction: AudioDevice.Direction, period: Duration, buffer: Duration, _ library: ALSALibrary
  ) throws(AudioError) -> ALSADevice {
    let alsa = library.table
    var pcm: OpaquePointer?
    let stream = direction == .input ? SND_PCM_STREAM_CAPTURE : SND_PCM_STREAM_PLAYBACK
    // Without NONBLOCK, opening a device that is in use waits until it is free.
    var code = alsa.snd_pcm_open(&pcm, name, stream, Int32(SND_PCM_NONBLOCK))
    guard code >= 0, let pcm else { throw library.refusal(name, direction, code) }
    var parameters: OpaquePointer?
    _ = alsa.snd_pcm_hw_params_malloc(&parameters)
    defer { alsa.snd_pcm_hw_params_free(parameters) }
    var device: ALSADevice?
    code = alsa.snd_pcm_hw_params_any(pcm, parameters)
    if code >= 0 {
      _ = alsa.snd_pcm_hw_params_set_rate_resample(pcm, parameters, 0)
      code = alsa.snd_pcm_hw_params_set_access(pcm, parameters, SND_PCM_ACCESS_RW_INTERLEAVED)
    }
    if code >= 0 {
      let choice = Choice(alsa: alsa, pcm: pcm, parameters: parameters)
      let isBare = name.hasPrefix("hw:")
      if let sample = choice.format(),
        let channels = choice.channels(direction == .input && isBare ? [1, 2] : [2, 1]), let rate = choice.rate()
      {
        var periodTime = UInt32(period.milliseconds * 1000)
        var bufferTime = UInt32(buffer.milliseconds * 1000)
        _ = alsa.snd_pcm_hw_params_set_period_time_near(pcm, parameters, &periodTime, nil)
        _ = alsa.snd_pcm_hw_params_set_buffer_time_near(pcm, parameters, &bufferTime, nil)
        code = alsa.snd_pcm_hw_params(pcm, parameters)
        var frames: snd_pcm_uframes_t = 0
        _ = alsa.snd_pcm_hw_params_get_buffer_size(parameters, &frames)
        let format = AudioFormat(sample, rate: rate, channels: channels)
        let refused = rates.prefix { $0 != rate }.map { "\($0)" }.joined(separator: ", ")
        let reason =
          refused.isEmpty
          ? "the device takes \(format) without conversion"
          : "the device takes \(format) without conversion (it refused \(refused) Hz)"
        device = ALSADevice(pcm: pcm, format: format, reason: reason, bufferFrames: Int(frames))
      } else {
        code = -EINVAL
      }
    }
    guard code >= 0, let device else {
      _ = alsa.snd_pcm_close(pcm)
      throw AudioError(
        .deviceRefused,
        "The \(direction.noun) \(name) took no format, rate and channels together: \(library.message(code)).",
        remedy: "Try another device: talknode audio list")
    }
    return device
  }

  /// Sets when the device begins by itself and when it is ready.
  func setThresholds(start: Int, available: Int, _ alsa: calsa) {
    var parameters: OpaquePointer?
    _ = alsa.snd_pcm_sw_params_malloc(&parameters)
    defer { alsa.snd_pcm_sw_params_free(parameters) }
    if alsa.snd_pcm_sw_params_current(pcm, parameters) < 0 { return }
    _ = alsa.snd_pcm_sw_params_set_start_threshold(pcm, parameters, snd_pcm_uframes_t(start))
    _ = alsa.snd_pcm_sw_params_set_avail_min(pcm, parameters, snd_pcm_uframes_t(available))
    _ = alsa.snd_pcm_sw_params(pcm, parameters)
  }

  /// The descriptors to poll for the device, and room for one more in front.
  func descriptors(_ alsa: calsa, wake: Int32) -> [pollfd] {
    let count = max(0, Int(alsa.snd_pcm_poll_descriptors_count(pcm)))
    var descriptors = [pollfd](repeating: pollfd(), count: count + 1)
    descriptors[0] = pollfd(fd: wake, events: Int16(POLLIN), revents: 0)
    if count > 0 {
      descriptors.withUnsafeMutableBufferPointer {
        _ = alsa.snd_pcm_poll_descriptors(pcm, $0.baseAddress! + 1, UInt32(count))
      }
    }
    return descriptors
  }

  private struct Choice {
    let alsa: calsa
    let pcm: OpaquePointer
    let parameters: OpaquePointer?

    func format() -> SampleFormat? {
      let formats: [(SampleFormat, snd_pcm_format_t)] = [
        (.s16le, SND_PCM_FORMAT_S16_LE), (.s32le, SND_PCM_FORMAT_S32_LE), (.s24le, SND_PCM_FORMAT_S24_3LE),
        (.s24in32le, SND_PCM_FORMAT_S24_LE), (.float32le, SND_PCM_FORMAT_FLOAT_LE), (.u8, SND_PCM_FORMAT_U8),
      ]
      return formats.first { alsa.snd_pcm_hw_params_set_format(pcm, parameters, $0.1) >= 0 }?.0
    }

    func channels(_ preferred: [Int]) -> Int? {
      for count in preferred where alsa.snd_pcm_hw_params_set_channels(pcm, parameters, UInt32(count)) >= 0 {
        return count
      }
      var count: UInt32 = 2
      return alsa.snd_pcm_hw_params_set_channels_near(pcm, parameters, &count) >= 0 ? Int(count) : nil
    }

    func rate() -> Int? {
      for rate in ALSADevice.rates where alsa.snd_pcm_hw_params_set_rate(pcm, parameters, UInt32(rate), 0) >= 0 {
        return rate
      }
      var rate: UInt32 = 48_000
      return alsa.snd_pcm_hw_params_set_rate_near(pcm, parameters, &rate, nil) >= 0 ? Int(rate) : nil
    }
  }
}
