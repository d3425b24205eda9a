import System

/// Runs the person's command when the first camera begins to stream and when the last has ended.
actor UseLight {
  nonisolated let loop: EventLoop
  nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
  private let command: [String]
  private var inUse = 0
  private var shown = false
  private var running: Task<Void, Never>?

  private static let patience: Duration = .seconds(5)

  init(command: [String], loop: EventLoop) {
    self.command = command
    self.loop = loop
  }

  func count(_ change: Int) {
    inUse += change
    bringUp()
  }

  /// Switches it off and waits for that.
  func off() async {
    inUse = 0
    bringUp()
    await running?.value
  }

  /// One run after the other, each with what holds then: a quick on and off and on ends as on.
  private func bringUp() {
    guard running == nil, (inUse > 0) != shown else { return }
    running = Task {
      while (inUse > 0) != shown {
        shown = inUse > 0
        await run(shown ? "on" : "off")
      }
      running = nil
    }
  }

  private func run(_ word: String) async {
    let process: Subprocess
    do throws(SystemError) {
      process = try await Subprocess.start(
        Subprocess.Command(command[0], Array(command.dropFirst()) + [word]), loop: loop)
    } catch {
      return Log.once("camera led", .warning, "camera.led can't be run: \(error)")
    }
    let exit = try? await withDeadline(Self.patience) { await process.waitForExit() }
    if exit == nil { await process.end() }
    if exit?.isSuccess == true {
      Log.clear("camera led", "camera.led works again.")
    } else {
      Log.once("camera led", .warning, "camera.led \(word): \(exit?.inWords ?? "it did not end in time").")
    }
  }
}
