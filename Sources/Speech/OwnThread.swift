import CLinux
import Glibc
import System

/// A thread that a blocking C library has to itself. Jobs run one after another, in the order they came.
///
/// A job that never returns can't be ended from outside; `abandon()` leaves the thread behind with the least share of the processor
/// and drops what was waiting, so that its owner can go on with a new one.
final class OwnThread: Sendable {
  private struct Job {
    let perform: @Sendable () -> Void
    /// Called instead when the thread is given up before the job's turn.
    let drop: @Sendable () -> Void
  }
  private struct State {
    var jobs: [Job] = []
    var isStopping = false
    var thread: pthread_t?
  }

  /// SCHED_IDLE of the kernel (sched(7)), which glibc hides behind _GNU_SOURCE.
  private static let idlePolicy: Int32 = 5

  private let state: Monitor<State>

  /// `name` shows in `ps -L` (at most 15 bytes).
  init(name: String) throws(SpeechError) {
    let state = Monitor(State())
    self.state = state
    let hasStarted = startThread(name: name) {
      state.withLock { $0.thread = pthread_self() }
      while let job = OwnThread.next(state) { job.perform() }
    }
    if !hasStarted { throw SpeechError(.failed, "No thread is left for \(name).") }
  }

  deinit { stop() }

  /// False when `limit` jobs are waiting already, or the thread is ending.
  func enqueue(
    limit: Int = 64, _ perform: @escaping @Sendable () -> Void, orElse drop: @escaping @Sendable () -> Void = {}
  ) -> Bool {
    state.withLock { state in
      if state.isStopping || state.jobs.count >= limit { return false }
      state.jobs.append(Job(perform: perform, drop: drop))
      return true
    }
  }

  /// Runs `body` on the thread and returns what it returns; throws `timeout` when that takes longer than `limit`.
  func run<Result: Sendable>(
    _ what: String, limit: Duration, _ body: @escaping @Sendable () -> Result
  ) async throws(SpeechError) -> Result {
    do {
      return try await withDeadline(limit) {
        try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Result, any Error>) in
          let isTaken = self.enqueue {
            continuation.resume(returning: body())
          } orElse: {
            continuation.resume(throwing: SpeechError(.failed, "\(what) hung."))
          }
          if !isTaken { continuation.resume(throwing: SpeechError(.busy, "\(what) has too much to do.")) }
        }
      }
    } catch let error as SpeechError {
      throw error
    } catch is DeadlineExceeded {
      throw SpeechError(.timeout, "\(what) did not answer within \(Int(limit.inSeconds)) s.")
    } catch {
      throw SpeechError(.cancelled, "\(what) was cancelled.")
    }
  }

  /// Ends the thread after the jobs already enqueued.
  func stop() { state.withLock { $0.isStopping = true } }

  /// Gives up on a thread that hangs in a job.
  func abandon() {
    let dropped = state.withLock { state in
      if !state.isStopping, let thread = state.thread {
        // It may spin: let everything else go first. The thread can't end, and its name be given to another, before it has seen
        // `isStopping` under this lock.
        var parameters = sched_param()
        pthread_setschedparam(thread, OwnThread.idlePolicy, &parameters)
      }
      state.isStopping = true
      defer { state.jobs = [] }
      return state.jobs
    }
    for job in dropped { job.drop() }
  }

  /// The next job; nil when the thread is to end.
  private static func next(_ state: Monitor<State>) -> Job? {
    state.wait { state -> Job?? in
      if !state.jobs.isEmpty { return .some(state.jobs.removeFirst()) }
      return state.isStopping ? .some(nil) : nil
    } ?? nil
  }
}
