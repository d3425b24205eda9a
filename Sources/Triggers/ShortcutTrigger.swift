import System

/// Hold-to-talk by a shortcut of the desktop, through its portal (org.freedesktop.portal.GlobalShortcuts): the person chooses the keys
/// there, and no rights on the keyboard are needed. Goes on when the portal, or the bus, is restarted.
public actor ShortcutTrigger {
  public struct Options: Sendable, Equatable {
    /// Who asks: the name of a desktop file.
    public var application: String
    /// What the person reads in the desktop's settings.
    public var description: String
    /// The keys to propose, as the XDG shortcuts specification writes them (`LOGO+F9`); nil leaves it to the person.
    public var keys: String?
    public var tapThreshold: Duration
    public init(
      application: String = "org.talknode.TalkNode", description: String = "Talk to the agent", keys: String? = nil,
      tapThreshold: Duration = .milliseconds(200)
    ) {
      self.application = application
      self.description = description
      self.keys = keys
      self.tapThreshold = tapThreshold
    }
  }

  public nonisolated let loop: EventLoop
  public nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
  private let options: Options
  private let address: Bus.Address
  private let signal: @Sendable (TriggerSignal) -> Void
  private var session = ShortcutSession()
  private var key: TalkKey
  private var portal: Portal?
  private var owner: String?
  private var busError: DBusError?
  private var life: Task<Void, Never>?
  private var opening: Task<Void, Never>?
  private var retryTimer: EventLoop.Token?
  private var stuckTimer: EventLoop.Token?

  private static let id = "talk"
  /// How long a person may look at the desktop's question.
  private static let patience: Duration = .seconds(600)

  /// `signal` is called on the loop. The connection to the bus is this trigger's own: a portal knows programs by it.
  public init(
    options: Options, address: Bus.Address = .session, loop: EventLoop,
    signal: @escaping @Sendable (TriggerSignal) -> Void
  ) {
    self.options = options
    self.address = address
    self.loop = loop
    self.signal = signal
    key = TalkKey(tapThreshold: options.tapThreshold)
  }

  /// Begins to ask for the shortcut, and returns at once.
  public func start() {
    if life == nil { life = Task { await live() } }
  }

  /// Gives the shortcut back. What it began is ended.
  public func stop() async {
    let last = portal
    let actions = session.on(.stop)
    for case .close(let session) in actions { await last?.close(session) }
    perform(actions)
    life?.cancel()
    life = nil
    await last?.bus.close()
    portal = nil
  }

  public var phase: ShortcutSession.Phase { session.phase }

  /// How it stands, for a person.
  public var state: TriggerState {
    func absent(_ detail: String, _ remedy: String? = nil) -> TriggerState {
      TriggerState(name: "talk shortcut", isReady: false, detail: detail, remedy: remedy)
    }
    if let busError, portal == nil {
      return absent(
        "The session's bus can't be reached: \(busError.message)", "Start talknode inside the desktop session.")
    }
    switch session.phase {
    case .bound(_, let trigger?):
      return TriggerState(
        name: "talk shortcut", isReady: true, detail: "\(trigger) talks, held or tapped.", remedy: nil)
    case .bound(_, nil):
      return absent("The desktop has the shortcut, and no keys for it.", "Choose keys in the desktop's settings.")
    case .refused(let error, _): return absent(error.summary, error.remedy)
    case .opening: return absent("The desktop is being asked.", "Look for a question of your desktop about shortcuts.")
    case .absent, .stopped: return absent("No desktop portal runs.", "sudo apt install xdg-desktop-portal")
    }
  }

  // MARK: The bus

  private func live() async {
    var pause = Duration.seconds(1)
    while !Task.isCancelled {
      do throws(DBusError) {
        let bus = try await Bus.open(address, loop: loop)
        try await watch(Portal(bus: bus))
        pause = .seconds(1)
      } catch {
        busError = error
      }
      portal = nil
      owner = nil
      on(.owner(nil))
      try? await Task.sleep(for: pause)
      pause = min(pause * 2, .seconds(60))
    }
  }

  /// Follows the portal until the connection is lost.
  private func watch(_ portal: Portal) async throws(DBusError) {
    let owners = try await portal.bus.owners(of: Portal.name)
    let presses = try await portal.bus.signals(DBusMatch(path: Portal.path, interface: Portal.shortcuts))
    let endings = try await portal.bus.signals(DBusMatch(interface: Portal.session, member: "Closed"))
    self.portal = portal
    busError = nil
    let readers = [
      Task { for await owner in owners { changed(owner) } },
      Task { for await ending in endings where ending.sender == owner { on(.closed(session: ending.path)) } },
    ]
    on(.begin)
    for await press in presses where press.sender == owner { take(press) }
    for reader in readers { reader.cancel() }
  }

  private func changed(_ new: String?) {
    owner = new
    on(.owner(new))
  }

  private func take(_ press: DBusSignal) {
    guard let session = press.arguments.first?.text else { return }
    if press.member == "ShortcutsChanged" {
      let trigger = Portal.trigger(of: Self.id, in: press.arguments.dropFirst().first)
      return on(.changed(session: session, trigger: trigger))
    }
    guard press.arguments.count >= 2, press.arguments[1].text == Self.id else { return }
    switch press.member {
    case "Activated": on(.pressed(session: session))
    case "Deactivated": on(.released(session: session))
    default: break
    }
  }

  // MARK: Doing

  private func on(_ event: ShortcutSession.Event) {
    let before = session.phase
    perform(session.on(event))
    if session.phase != before { tellLog() }
  }

  private func tellLog() {
    switch session.phase {
    case .bound(_, let trigger): Log.clear("talk shortcut", "The talk shortcut works: \(trigger ?? "no keys are set").")
    case .refused(let error, _): Log.once("talk shortcut", .warning, "The talk shortcut does not work. \(error)")
    case .absent, .opening, .stopped: break
    }
  }

  private func perform(_ actions: [ShortcutSession.Action]) {
    for action in actions {
      switch action {
      case .open(let attempt): open(attempt)
      case .giveUp: opening?.cancel()
      case .close: break  // Only `stop` closes, and waits for it.
      case .retry(let attempt, let delay):
        if let retryTimer { loop.cancel(retryTimer) }
        retryTimer = loop.after(delay) { [weak self] in
          self?.assumeIsolated { $0.on(.retry(attempt: attempt)) }
        }
      // The portal's own times are of no clock in particular.
      case .press: tell(.down(at: Monotonic.now()))
      case .release: tell(.up(at: Monotonic.now()))
      case .lose: tell(.lost)
      }
    }
  }

  private func open(_ attempt: Int) {
    guard let portal else { return }
    opening?.cancel()
    opening = Task {
      do throws(Portal.Refusal) {
        await portal.register(options.application)
        let (session, trigger) = try await portal.bind(
          Self.id, options.description, preferring: options.keys, limit: Self.patience)
        // Known before the first press can be taken: those come after this turn.
        owner = try? await portal.bus.owner(of: Portal.name)
        on(.opened(attempt: attempt, session: session, trigger: trigger))
      } catch {
        on(.refused(attempt: attempt, error.error, isFinal: error.isFinal))
      }
    }
  }

  private func tell(_ event: TalkKey.Event) {
    for action in key.on(event) {
      switch action {
      case .start: signal(.start)
      case .stop: signal(.stop)
      case .stopStuckTimer:
        if let stuckTimer { loop.cancel(stuckTimer) }
        stuckTimer = nil
      case .startStuckTimer(let limit):
        // A portal can't be asked whether keys are down: after so long they are taken for stuck.
        stuckTimer = loop.after(limit) { [weak self] in
          self?.assumeIsolated { $0.tell(.state(isDown: true)) }
        }
      }
    }
  }
}
