import CInput
import Glibc
import System

/// Hold-to-talk from evdev: watches every keyboard that has the key (or the one named), also those plugged in later.
///
/// Works on a console, under X11 and under any Wayland compositor; needs read access to `/dev/input`.
public actor KeyTrigger {
  public struct Options: Sendable, Equatable {
    public var key: KeyCode
    /// A part of the device's name, a path (`/dev/input/by-id/…` is stable), or nil for every device that has the key.
    public var device: String?
    public var tapThreshold: Duration
    public init(key: KeyCode, device: String? = nil, tapThreshold: Duration = .milliseconds(200)) {
      self.key = key
      self.device = device
      self.tapThreshold = tapThreshold
    }
  }

  public nonisolated let loop: EventLoop
  public nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
  private let options: Options
  private let folder: String
  private let signal: @Sendable (TriggerSignal) -> Void
  private var keyboards: [String: Watched] = [:]
  private var notify: (descriptor: Int32, token: EventLoop.Token)?
  private var rescan: EventLoop.Token?
  private var refusal: TriggerError?

  private struct Watched {
    let keyboard: Keyboard
    let token: EventLoop.Token
    var key: TalkKey
    var stuckTimer: EventLoop.Token?
  }

  /// `signal` is called on the loop. `folder` is where the kernel's devices are.
  public init(
    options: Options, loop: EventLoop, folder: String = "/dev/input",
    signal: @escaping @Sendable (TriggerSignal) -> Void
  ) {
    self.options = options
    self.loop = loop
    self.folder = folder
    self.signal = signal
  }

  /// The devices that are watched, by name.
  public var devices: [String] { keyboards.values.map(\.keyboard.name).sorted() }

  /// How it stands, for a person.
  public var state: TriggerState {
    if keyboards.isEmpty {
      let error = refusal ?? notFound
      return TriggerState(name: "talk key", isReady: false, detail: error.summary, remedy: error.remedy)
    }
    return TriggerState(
      name: "talk key", isReady: true, detail: "\(options.key) of \(devices.joined(separator: ", ")) talks.",
      remedy: nil)
  }

  /// Begins to watch, and goes on looking for keyboards that come later. The error, if any, says why none is watched at this moment.
  @discardableResult
  public func start() -> TriggerError? {
    watchFolder()
    scan()
    return keyboards.isEmpty ? refusal ?? notFound : nil
  }

  public func stop() {
    if let notify {
      loop.unwatch(notify.token)
      close(notify.descriptor)
    }
    notify = nil
    if let rescan { loop.cancel(rescan) }
    rescan = nil
    for path in keyboards.keys { lose(path) }
  }

  private var notFound: TriggerError {
    TriggerError(
      .notFound, "No input device \(options.device.map { "\"\($0)\" " } ?? "")has \(options.key).",
      remedy: "Plug it in, or choose another in [talk.key]; /proc/bus/input/devices lists them.")
  }

  // MARK: Finding keyboards

  private func watchFolder() {
    let descriptor = inotify_init1(Int32(IN_CLOEXEC) | Int32(IN_NONBLOCK))
    if descriptor < 0 {
      return Log.warning("Keyboards plugged in later will not be seen: no inotify descriptor is left.")
    }
    inotify_add_watch(descriptor, folder, UInt32(IN_CREATE | IN_ATTRIB | IN_DELETE))
    let token = loop.watch(descriptor, .readable) { [weak self] _ in self?.assumeIsolated { $0.folderChanged() } }
    notify = (descriptor, token)
  }

  private func folderChanged() {
    guard let notify else { return }
    var bytes = [UInt8](repeating: 0, count: 4096)
    while read(notify.descriptor, &bytes, bytes.count) > 0 {}
    // udev sets a new node's permissions a moment after it is made; IN_ATTRIB tells, this collects the burst.
    if rescan == nil {
      rescan = loop.after(.milliseconds(100)) { [weak self] in
        self?.assumeIsolated {
          $0.rescan = nil
          $0.scan()
        }
      }
    }
  }

  private func scan() {
    refusal = nil
    let isPath = options.device?.hasPrefix("/") == true
    let paths =
      isPath ? [options.device!] : Files.list(folder).filter { $0.hasPrefix("event") }.map { folder + "/" + $0 }
    for path in paths where keyboards[path] == nil { consider(path, isNamed: isPath) }
    if keyboards.isEmpty, let refusal {
      Log.once("talk key", .warning, "The talk key can't be read. \(refusal)")
    } else {
      Log.clear("talk key", "The talk key can be read again.")
    }
  }

  private func consider(_ path: String, isNamed: Bool) {
    let keyboard: Keyboard
    do { keyboard = try Keyboard(path: path) } catch {
      if error.code == EACCES || error.code == EPERM { refusal = Self.notPermitted(path) }
      return
    }
    guard keyboard.has(options.key) else { return }
    if let wanted = options.device, !isNamed, !keyboard.name.lowercased().contains(wanted.lowercased()) { return }
    let token = loop.watch(keyboard.descriptor, .readable) { [weak self] _ in self?.assumeIsolated { $0.ready(path) }
    }
    keyboards[path] = Watched(keyboard: keyboard, token: token, key: TalkKey(tapThreshold: options.tapThreshold))
    Log.info("\(options.key) of \(keyboard.name) talks.")
  }

  static func notPermitted(_ path: String) -> TriggerError {
    TriggerError(
      .notPermitted, "Reading \(path) is not permitted.",
      remedy:
        "Join its group: sudo usermod -aG input \"$USER\" (then log in again). For this one device only, a udev rule does: "
        + "SUBSYSTEM==\"input\", KERNEL==\"event*\", ATTRS{name}==\"NAME\", TAG+=\"uaccess\" in /etc/udev/rules.d/70-talknode.rules"
    )
  }

  // MARK: Reading them

  private func ready(_ path: String) {
    guard let watched = keyboards[path] else { return }
    switch watched.keyboard.read() {
    case .nothing: return
    case .gone:
      Log.info("\(watched.keyboard.name) is gone.")
      lose(path)
    case .events(let events):
      if events.contains(where: { $0.type == UInt16(EV_SYN) && $0.code == UInt16(SYN_DROPPED) }) {
        // The kernel dropped events: ask for the state instead of guessing. Asking takes the key's events out of the kernel's queue, so those
        // that were just read may lack their other half.
        if !watched.keyboard.isDown(options.key) { tell(.state(isDown: false), path) }
      } else {
        for event in events { take(event, from: path) }
      }
    }
  }

  private func take(_ event: input_event, from path: String) {
    guard event.type == UInt16(EV_KEY), event.code == options.key.rawValue else { return }
    switch event.value {
    case 1: tell(.down(at: Monotonic.now()), path)
    case 0: tell(.up(at: Monotonic.now()), path)
    default: break
    }
  }

  private func lose(_ path: String) {
    tell(.lost, path)
    guard let watched = keyboards.removeValue(forKey: path) else { return }
    loop.unwatch(watched.token)
  }

  private func tell(_ event: TalkKey.Event, _ path: String) {
    guard var watched = keyboards[path] else { return }
    let actions = watched.key.on(event)
    for action in actions {
      switch action {
      case .start: signal(.start)
      case .stop: signal(.stop)
      case .stopStuckTimer:
        if let timer = watched.stuckTimer { loop.cancel(timer) }
        watched.stuckTimer = nil
      case .startStuckTimer(let limit):
        watched.stuckTimer = loop.after(limit) { [weak self] in self?.assumeIsolated { $0.checkStuck(path) } }
      }
    }
    keyboards[path] = watched
  }

  private func checkStuck(_ path: String) {
    guard let keyboard = keyboards[path]?.keyboard else { return }
    let isDown = keyboard.isDown(options.key)
    if isDown { Log.warning("\(options.key) of \(keyboard.name) has been down for five minutes: taken for stuck.") }
    tell(.state(isDown: isDown), path)
  }
}
