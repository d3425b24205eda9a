import CPulse

extension SampleFormat {
  var pulse: pa_sample_format_t {
    switch self {
    case .u8: PA_SAMPLE_U8
    case .s16le: PA_SAMPLE_S16LE
    case .s24le: PA_SAMPLE_S24LE
    case .s24in32le: PA_SAMPLE_S24_32LE
    case .s32le: PA_SAMPLE_S32LE
    case .float32le: PA_SAMPLE_FLOAT32LE
    }
  }

  /// The same samples here; what can't be read here (big-endian, A-law, µ-law) is asked for as floats, which hold all of them.
  init(_ format: pa_sample_format_t) {
    self = SampleFormat.allCases.first { $0.pulse == format } ?? .float32le
  }
}

extension AudioFormat {
  init(_ spec: pa_sample_spec) {
    self.init(SampleFormat(spec.format), rate: Int(spec.rate), channels: Int(spec.channels))
  }
}

/// A source as a device.
func sourceDevice(_ info: pa_source_info) -> PulseConnection.Device? {
  guard let name = text(info.name) else { return nil }
  let device = AudioDevice(
    backend: "pulse", name: name, label: text(info.description) ?? name, direction: .input,
    isMonitor: info.monitor_of_sink != UInt32.max, format: AudioFormat(info.sample_spec), isMuted: info.mute != 0,
    isSuspended: info.state == PA_SOURCE_SUSPENDED,
    connection: connection(info.proplist, isVirtual(info.flags.rawValue)))
  return PulseConnection.Device(device: device, map: info.channel_map)
}

/// A sink as a device.
func sinkDevice(_ info: pa_sink_info) -> PulseConnection.Device? {
  guard let name = text(info.name) else { return nil }
  let device = AudioDevice(
    backend: "pulse", name: name, label: text(info.description) ?? name, direction: .output,
    format: AudioFormat(info.sample_spec), isMuted: info.mute != 0, isSuspended: info.state == PA_SINK_SUSPENDED,
    connection: connection(info.proplist, isVirtual(info.flags.rawValue)))
  return PulseConnection.Device(device: device, map: info.channel_map)
}

/// PA_SINK_HARDWARE and PA_SOURCE_HARDWARE are the same bit.
private func isVirtual(_ flags: UInt32) -> Bool { flags & PA_SINK_HARDWARE.rawValue == 0 }

private func connection(_ properties: OpaquePointer?, _ isVirtual: Bool) -> AudioDevice.Connection {
  guard let properties, let pulse = try? PulseLibrary.shared.get().table else { return .unknown }
  func property(_ name: String) -> String { text(pulse.pa_proplist_gets(properties, name)) ?? "" }
  let bus = property("device.bus")
  if bus == "bluetooth" || property("device.api").hasPrefix("bluez") { return .bluetooth }
  if bus == "usb" { return .usb }
  let profile = property("device.profile.name") + property("alsa.id") + property("device.profile.description")
  if profile.lowercased().contains("hdmi") { return .hdmi }
  if bus == "pci" || property("device.form_factor") == "internal" { return .builtIn }
  if property("device.api") == "network" || !property("tunnel.remote.server").isEmpty { return .network }
  return isVirtual ? .virtual : .unknown
}
