import CInput

/// A key by the kernel's number (linux/input-event-codes.h).
public struct KeyCode: Sendable, Hashable, CustomStringConvertible {
  public let rawValue: UInt16

  /// A key by its name in any case, with or without `KEY_`, or by its number. Throws `TRIGGER_SETTING_INVALID`.
  public init(_ text: String) throws(TriggerError) {
    let upper = text.uppercased()
    let name = upper.hasPrefix("KEY_") ? String(upper.dropFirst(4)) : upper
    if let code = Self.named[name] {
      rawValue = UInt16(code)
    } else if let code = UInt16(text), code > 0, code <= UInt16(KEY_MAX) {
      rawValue = code
    } else {
      throw TriggerError(
        .setting, "\"\(text)\" is no key that is known by name.",
        remedy: "Use a name such as F13, RIGHTCTRL or PAUSE, or the number that `evtest` shows.")
    }
  }

  public var description: String {
    Self.named.first { UInt16($0.value) == rawValue }.map { "KEY_\($0.key)" } ?? "key \(rawValue)"
  }

  /// Keys one would talk with: what no program types, and the common ones.
  private static let named: [String: Int32] = [
    "ESC": KEY_ESC, "TAB": KEY_TAB, "ENTER": KEY_ENTER, "SPACE": KEY_SPACE, "CAPSLOCK": KEY_CAPSLOCK,
    "GRAVE": KEY_GRAVE, "BACKSLASH": KEY_BACKSLASH, "102ND": KEY_102ND,
    "LEFTCTRL": KEY_LEFTCTRL, "RIGHTCTRL": KEY_RIGHTCTRL, "LEFTALT": KEY_LEFTALT, "RIGHTALT": KEY_RIGHTALT,
    "LEFTSHIFT": KEY_LEFTSHIFT, "RIGHTSHIFT": KEY_RIGHTSHIFT, "LEFTMETA": KEY_LEFTMETA, "RIGHTMETA": KEY_RIGHTMETA,
    "COMPOSE": KEY_COMPOSE, "MENU": KEY_MENU, "NUMLOCK": KEY_NUMLOCK, "SCROLLLOCK": KEY_SCROLLLOCK,
    "PAUSE": KEY_PAUSE, "SYSRQ": KEY_SYSRQ, "INSERT": KEY_INSERT, "DELETE": KEY_DELETE, "HOME": KEY_HOME,
    "END": KEY_END, "PAGEUP": KEY_PAGEUP, "PAGEDOWN": KEY_PAGEDOWN,
    "F1": KEY_F1, "F2": KEY_F2, "F3": KEY_F3, "F4": KEY_F4, "F5": KEY_F5, "F6": KEY_F6, "F7": KEY_F7, "F8": KEY_F8,
    "F9": KEY_F9, "F10": KEY_F10, "F11": KEY_F11, "F12": KEY_F12, "F13": KEY_F13, "F14": KEY_F14, "F15": KEY_F15,
    "F16": KEY_F16, "F17": KEY_F17, "F18": KEY_F18, "F19": KEY_F19, "F20": KEY_F20, "F21": KEY_F21, "F22": KEY_F22,
    "F23": KEY_F23, "F24": KEY_F24,
    "MICMUTE": KEY_MICMUTE, "MUTE": KEY_MUTE, "PLAYPAUSE": KEY_PLAYPAUSE, "MEDIA": KEY_MEDIA, "RECORD": KEY_RECORD,
    "VOICECOMMAND": KEY_VOICECOMMAND, "PHONE": KEY_PHONE, "NEXTSONG": KEY_NEXTSONG, "PREVIOUSSONG": KEY_PREVIOUSSONG,
    "PROG1": KEY_PROG1, "PROG2": KEY_PROG2, "PROG3": KEY_PROG3, "PROG4": KEY_PROG4, "SEARCH": KEY_SEARCH,
    "CAMERA": KEY_CAMERA, "POWER": KEY_POWER,
  ]
}
