import Glibc
import System

/// Asks for a secret at the terminal without showing it.
enum SecretPrompt {
  private static let longest = 4096

  /// What was typed; nil when the line was empty, given up by Ctrl-C or Ctrl-D, or there is no terminal to ask at.
  @concurrent static func ask(_ question: String, _ terminal: Terminal) async -> String? {
    var before = termios()
    guard terminal.isInteractive, tcgetattr(STDIN_FILENO, &before) == 0 else { return nil }
    var hidden = before
    // Ctrl-C is read as a character: a signal would leave the terminal without its echo.
    hidden.c_lflag &= ~tcflag_t(ECHO | ICANON | ISIG)
    guard tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden) == 0 else { return nil }
    defer {
      tcsetattr(STDIN_FILENO, TCSAFLUSH, &before)
      terminal.note("")
    }
    terminal.prompt(question)
    let typed = line()?.trimmed ?? ""
    return typed.isEmpty ? nil : typed
  }

  private static func line() -> String? {
    var bytes: [UInt8] = []
    var byte: UInt8 = 0
    while read(STDIN_FILENO, &byte, 1) == 1 {
      switch byte {
      case 0x0A, 0x0D: return String(decoding: bytes, as: UTF8.self)
      case 0x03, 0x04: return nil
      case 0x08, 0x7F: _ = bytes.popLast()
      default: if bytes.count < longest { bytes.append(byte) }
      }
    }
    return nil
  }
}
