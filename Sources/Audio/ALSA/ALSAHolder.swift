import Glibc
import System

/// The program that has an ALSA device open, as the kernel tells it.
struct ALSAHolder: Sendable, Equatable, CustomStringConvertible {
  var process: Int
  var program: String

  var description: String { "\(program) (process \(process))" }

  /// Looks at /proc/asound, whose status files name the owner of each open stream. Nil when none is named there.
  static func find(_ device: String, _ direction: AudioDevice.Direction, proc: String = "/proc") -> ALSAHolder? {
    let asound = proc + "/asound"
    let wanted = card(device, asound)
    let cards = Files.list(asound).filter { $0.hasPrefix("card") && Int($0.dropFirst(4)) != nil }
    for card in cards where wanted == nil || card == wanted {
      let suffix: Character = direction == .input ? "c" : "p"
      for pcm in Files.list("\(asound)/\(card)") where pcm.hasPrefix("pcm") && pcm.last == suffix {
        for sub in Files.list("\(asound)/\(card)/\(pcm)") where sub.hasPrefix("sub") {
          let status = Files.text("\(asound)/\(card)/\(pcm)/\(sub)/status") ?? ""
          if let owner = owner(status), let holder = holder(owner, proc) { return holder }
        }
      }
    }
    return nil
  }

  /// `card1` for `hw:CARD=PCH,DEV=0`, `plughw:1,0` and the like; nil when the name tells no card.
  private static func card(_ device: String, _ asound: String) -> String? {
    guard let colon = device.firstIndex(of: ":") else { return nil }
    let arguments = device[device.index(after: colon)...].split(separator: ",")
    guard let first = arguments.first(where: { $0.hasPrefix("CARD=") })?.dropFirst(5) ?? arguments.first else {
      return nil
    }
    if Int(first) != nil { return "card\(first)" }
    // /proc/asound/PCH is a link to card1.
    var target = [CChar](repeating: 0, count: 64)
    let count = readlink("\(asound)/\(first)", &target, target.count)
    return count <= 0 ? nil : String(decoding: target[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  private static func owner(_ status: String) -> Int? {
    for line in status.split(separator: "\n") where line.hasPrefix("owner_pid") {
      return line.split(separator: ":").last.flatMap { Int($0.trimmed) }
    }
    return nil
  }

  /// The kernel names a thread; its process is the one to close.
  private static func holder(_ task: Int, _ proc: String) -> ALSAHolder? {
    guard let status = Files.text("\(proc)/\(task)/status") else { return nil }
    func field(_ name: String) -> String? {
      status.split(separator: "\n").first { $0.hasPrefix(name + ":") }.map { $0.dropFirst(name.count + 1).trimmed }
    }
    let process = field("Tgid").flatMap { Int($0) } ?? task
    let program = Files.text("\(proc)/\(process)/comm")?.trimmed ?? field("Name")
    return program.map { ALSAHolder(process: process, program: $0) }
  }
}
