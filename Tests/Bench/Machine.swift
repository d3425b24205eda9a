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

  /// The most resident memory that a process has had, in megabytes; 0 is this one.
  static func mostMemory(of process: pid_t = 0) throws -> Double {
    let name = process == 0 ? "self" : String(process)
    guard let most = kilobytes("VmHWM", in: Files.text("/proc/\(name)/status") ?? "") else {
      throw BenchError("the kernel does not tell")
    }
    return most * 1.024 / 1000
  }

  /// Seconds of processor time of this process, all its threads together.
  static func processorTime() -> Double {
    var time = timespec()
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
    return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
  }

  private static func kilobytes(_ name: String, in text: String) -> Double? {
    field(name, in: text).flatMap { Double($0.split(separator: " ").first ?? "") }
  }

  /// How often each thread of a process has gone to sleep and so been woken again.
  static func sleeps(of process: pid_t) -> [String: Int] {
    Files.list("/proc/\(process)/task").reduce(into: [:]) { sleeps, thread in
      let text = Files.text("/proc/\(process)/task/\(thread)/status") ?? ""
      sleeps[thread] = field("voluntary_ctxt_switches", in: text).flatMap { Int($0) }
    }
  }

  /// The names of a process's threads, by their ids.
  static func threads(of process: pid_t) -> [String: String] {
    Files.list("/proc/\(process)/task").reduce(into: [:]) { names, thread in
      names[thread] = Files.text("/proc/\(process)/task/\(thread)/comm")?.trimmed
    }
  }

  /// Processor time that a process has used, all its threads together (proc(5), stat).
  static func processorTime(of process: pid_t) -> Duration {
    // The name before the fields may hold spaces and brackets.
    let text = Files.text("/proc/\(process)/stat") ?? ""
    let fields = text[(text.lastIndex(of: ")") ?? text.startIndex)...].split(separator: " ")
    guard fields.count > 13, let user = Int(fields[12]), let system = Int(fields[13]) else { return .zero }
    return .milliseconds((user + system) * 1000 / sysconf(Int32(_SC_CLK_TCK)))
  }

  /// Counts sleeps over some time. Looked at every second, for a thread that ends takes its count with it.
  static func sleeps(of process: pid_t, over seconds: Int) async throws -> (count: Int, threads: Int) {
    var count = 0
    var before = sleeps(of: process)
    for _ in 0..<seconds {
      try await Task.sleep(for: .seconds(1))
      let after = sleeps(of: process)
      for (thread, sleeps) in after { count += sleeps - (before[thread] ?? 0) }
      before = after
    }
    return (count, before.count)
  }
}
