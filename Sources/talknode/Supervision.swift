import System

/// Tells the service manager how the program is, and feeds its watchdog from the event loop: it is the loop whose standstill would be
/// the failure.
actor Supervision {
  nonisolated let loop: EventLoop
  nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
  private let supervisor: Supervisor?
  private var heartbeat: EventLoop.Token?

  init(environment: Environment, loop: EventLoop) {
    supervisor = Supervisor(environment: environment.variables)
    self.loop = loop
  }

  func ready(_ sentence: String) {
    supervisor?.ready(status: sentence)
    beat()
  }

  func report(_ sentence: String) { supervisor?.status(sentence) }

  func stopping() {
    supervisor?.stopping()
    if let heartbeat { loop.cancel(heartbeat) }
    heartbeat = nil
  }

  private func beat() {
    guard let supervisor, let interval = supervisor.aliveInterval else { return }
    supervisor.alive()
    heartbeat = loop.after(interval) { [weak self] in self?.assumeIsolated { $0.beat() } }
  }
}
