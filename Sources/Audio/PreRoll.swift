/// How much silence is played before a sound, so that a speaker that has to wake up does not swallow the first syllable.
public struct PreRoll: Sendable, Equatable {
  public let duration: Duration
  /// Why, in a few words.
  public let reason: String

  /// `setting` wins. Otherwise: nothing on a speaker that is awake, 200 ms on one that sleeps, 500 ms on Bluetooth (a headset's radio
  /// link is set up again after each pause), 300 ms on HDMI (receivers mute until they have locked on).
  public init(for device: AudioDevice, setting: Duration?) {
    if let setting {
      duration = setting
      reason = "set by the configuration"
      return
    }
    switch (device.connection, device.isSuspended) {
    case (.bluetooth, true): (duration, reason) = (.milliseconds(500), "a sleeping Bluetooth device")
    case (.bluetooth, false): (duration, reason) = (.milliseconds(150), "a Bluetooth device")
    case (.hdmi, true): (duration, reason) = (.milliseconds(300), "a sleeping HDMI device")
    case (_, true): (duration, reason) = (.milliseconds(200), "a sleeping device")
    case (_, false): (duration, reason) = (.zero, "the device is awake")
    }
  }
}
