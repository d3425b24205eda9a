import Health
import NodeKit
import System

/// Where today's figures, and those of other days, are asked for: reads the files on a thread of its own, one asker after the other.
public actor HealthDesk {
  public struct Options: Sendable {
    /// Files and folders.
    public var paths: [String]
    /// Asked each time: a laptop travels.
    public var zone: @Sendable () -> ZoneRules
    /// The index's file; nil = none is kept.
    public var index: String?
    /// A folder of our own for what has to be unpacked to be read.
    public var scratch: String
    /// Whether the index may be kept still: the switch may be turned by another process meanwhile.
    public var mayKeep: @Sendable () -> Bool
    /// Parts of the names of devices, the most believed first.
    public var priority: [String]
    public var estimatesResting: Bool
    /// Milliseconds since 1970.
    public var now: @Sendable () -> Int64

    public init(
      paths: [String], zone: @escaping @Sendable () -> ZoneRules, index: String? = nil, scratch: String = "/var/tmp",
      mayKeep: @escaping @Sendable () -> Bool = { true }, priority: [String] = [], estimatesResting: Bool = true,
      now: @escaping @Sendable () -> Int64 = { WallClock.milliseconds() }
    ) {
      self.paths = paths
      self.zone = zone
      self.index = index
      self.scratch = scratch
      self.mayKeep = mayKeep
      self.priority = priority
      self.estimatesResting = estimatesResting
      self.now = now
    }
  }

  /// Some days and what they were made of.
  public struct Days: Sendable {
    /// Ascending; the last one is the one that was asked for.
    public let days: [DayReckoning]
    public let evidence: [FileEvidence]
  }

  public nonisolated let options: Options
  private var last: Task<Void, Never>?
  /// Of what is being read; raised when it is to end.
  private var stop: Flag?

  public init(_ options: Options) { self.options = options }

  /// Whether there is anything to read. Nothing is read to find out.
  public nonisolated func availability() -> Availability {
    let places = options.paths.joined(separator: ", ")
    let remedy = "Put an export there, or name its place: [health] files in the settings (talknode config sample)"
    if options.paths.contains(where: {
      Files.exists($0) && (Files.list($0).contains { !$0.hasPrefix(".") } || !Files.isFolder($0))
    }) {
      return .ready
    }
    return .absent(reason: "There are no health files in \(places.isEmpty ? "the settings" : places).", remedy: remedy)
  }

  /// From midnight to now.
  public func today() async throws(HealthError) -> DayReckoning {
    let (zone, now) = (options.zone(), options.now())
    let window = DayWindow.today(zone: zone, now: now)
    let evidence = try await read(window.start..<max(window.end, window.start + 1), zone, now)
    return reckon(window, evidence)
  }

  /// A day, and those before it; nil = today.
  public func days(to date: CivilDate?, count: Int) async throws(HealthError) -> Days {
    let (zone, now) = (options.zone(), options.now())
    let date = date ?? DayWindow.today(zone: zone, now: now).date
    let windows = (0..<count).reversed().map { DayWindow(date.adding(days: -$0), zone: zone, now: now) }
    let evidence = try await read(windows[0].start..<max(windows[count - 1].end, windows[0].start + 1), zone, now)
    return Days(days: windows.map { reckon($0, evidence) }, evidence: evidence)
  }

  /// Removes what a process that was killed has left unpacked. Reading does it too; a daemon is asked for nothing for long.
  public nonisolated func tidy() { HealthFiles.removeUnpacked(in: options.scratch) }

  /// Ends what is being read, and removes the index and whatever was left unpacked.
  public func forget() async {
    stop?.raise()
    await last?.value
    tidy()
    guard let index = options.index else { return }
    do { try Files.removeTree(index) } catch {
      Log.error("The index of the health files could not be removed: \(error).")
    }
  }

  private nonisolated func reckon(_ window: DayWindow, _ evidence: [FileEvidence]) -> DayReckoning {
    DayReckoning(
      window, evidence, priority: SourcePriority(options.priority), estimatesResting: options.estimatesResting)
  }

  /// Reads after whoever came before; ends early when the asker is cancelled.
  private func read(_ span: Range<Int64>, _ zone: ZoneRules, _ now: Int64) async throws(HealthError) -> [FileEvidence] {
    let files = HealthFiles(
      paths: options.paths, zone: zone, index: options.index, scratch: options.scratch, mayKeep: options.mayKeep)
    let flag = Flag()
    let (results, result) = AsyncStream.makeStream(of: Result<[FileEvidence], HealthError>.self)
    let before = last
    let reading = Task {
      await before?.value
      if flag.isRaised { return result.finish() }
      await withCheckedContinuation { (done: CheckedContinuation<Void, Never>) in
        let hasStarted = startThread(name: "health") {
          result.yield(
            Result { () throws(HealthError) in
              try files.read(span: span, now: now, isCancelled: { flag.isRaised })
            })
          done.resume()
        }
        if !hasStarted { done.resume() }
      }
      result.finish()
    }
    last = reading
    stop = flag
    return try await withTaskCancellationHandler {
      for await result in results { return result }
      return .failure(HealthError(.cancelled, "it was called off, or no thread is left"))
    } onCancel: {
      flag.raise()
    }.get()
  }
}

/// Raised once, seen by another thread.
private final class Flag: Sendable {
  private let state = Lock(false)
  func raise() { state.withLock { $0 = true } }
  var isRaised: Bool { state.withLock { $0 } }
}
