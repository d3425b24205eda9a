import Glibc
import System

/// What the kernel says about this machine and its processes.
enum Machine {
  static var description: String {
    let model =
      field("model name", in: Files.text("/proc/cpuinfo") ?? "")
      ?? field("Model", in: Files.text("/proc/cpuinfo") ?? "")
    return "\(model ?? "unknown processor"), \(sysconf(Int32(_SC_NPROCESSORS_ONLN))) cores"
  }

  /// A field of /proc/PID/status or a file like it.
  static func field(_ name: String, in text: String) -> String? {
    for line in text.split(separator: "\n") {
      let parts = line.split(separator: ":", maxSplits: 1)
      if parts.count == 2 && parts[0].trimmed == name { return parts[1].trimmed }
    }
    return nil
  }

  /// Resident memory of a process in megabytes (10^6): all of it, and its own share of what it has in common with others.
  static func memory(of process: pid_t) throws -> (resident: Double, share: Double?) {
    guard let text = Files.text("/proc/\(process)/status"), let resident = kilobytes("VmRSS", in: text) else {
      throw BenchError("process \(process) is gone")
    }
    let share = Files.text("/proc/\(process)/smaps_rollup").flatMap { kilobytes("Pss", in: $0) }
    return (resident * 1.024 / 1000, share.map { $0 * 1.024 / 1000 })
  }

  private static func kilobytes(_ name: String, in text: String) -> Double? {
    field(name, in: text).flatMap { Double($0.split(separator: " ").first ?? "") }
  }

  /// How often the threads of a process have gone to sleep and so been woken again, and how many threads there are.
  static func sleeps(of process: pid_t) -> (count: Int, threads: Int) {
    let threads = Files.list("/proc/\(process)/task")
    let counts = threads.map { thread in
      field("voluntary_ctxt_switches", in: Files.text("/proc/\(process)/task/\(thread)/status") ?? "").flatMap {
        Int($0)
      } ?? 0
    }
    return (counts.reduce(0, +), threads.count)
  }
}
