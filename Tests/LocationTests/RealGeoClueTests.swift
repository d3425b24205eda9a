import Foundation
import System
import TestSupport
import Testing

@testable import Location

/// The real GeoClue, in a network and with files of its own: a D-Bus of the test's, avahi on that network's loopback, a receiver that is
/// announced there as `_nmea-0183._tcp`, and GeoClue's demo agent. Its Wi-Fi is switched off, and there is no other network it could ask.
struct GeoClueRig {
  let folder = TemporaryFolder()
  let loop = EventLoop(name: "test geoclue")
  private let process: Subprocess

  static let programs = [
    "/usr/libexec/geoclue", "/usr/libexec/geoclue-2.0/demos/agent", "/usr/sbin/avahi-daemon",
    "/usr/bin/avahi-publish-service", "/usr/bin/unshare", "/usr/bin/python3", "/usr/bin/dbus-daemon",
  ]
  private static let isolation = [
    "--map-current-user", "--keep-caps", "--mount", "--net", "--pid", "--fork", "--kill-child",
  ]

  /// Whether all of it is installed and the kernel gives this user namespaces of his own.
  static let isPossible: Bool = {
    guard programs.allSatisfy({ FileManager.default.isExecutableFile(atPath: $0) }) else { return false }
    let trial = Process()
    trial.executableURL = URL(fileURLWithPath: "/usr/bin/unshare")
    trial.arguments = isolation + ["sh", "-c", "mount -t tmpfs none /run && ip link set lo up"]
    trial.standardError = FileHandle.nullDevice
    guard (try? trial.run()) != nil else { return false }
    trial.waitUntilExit()
    return trial.terminationStatus == 0
  }()

  /// Runs `body` with a rig whose services are up.
  static func with(hasAgent: Bool, _ body: (GeoClueRig, Locator) async throws -> Void) async throws {
    let rig = try await GeoClueRig(hasAgent: hasAgent)
    let locator = rig.locator()
    do {
      let isUp = await rig.isUp()
      let said = await rig.process.errorOutput
      try #require(isUp, "GeoClue does not come up: \(said)")
      try await body(rig, locator)
    } catch {
      await locator.close()
      await rig.stop()
      throw error
    }
    await locator.close()
    await rig.stop()
  }

  private init(hasAgent: Bool) async throws {
    let folder = folder
    try folder.write("receiver.py", Self.receiver)
    try folder.write("avahi.conf", Self.avahi)
    try folder.write("geoclue.conf", Self.geoclue)
    try folder.write(
      "bus.conf",
      """
      <busconfig><type>session</type><listen>unix:path=\(folder("bus"))</listen><policy context="default">
      <allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>
      """)
    try folder.write("data/applications/org.talknode.TalkNode.desktop", try Self.desktopFile())
    try folder.write("rig.sh", Self.script(folder.path, hasAgent: hasAgent))
    process = try await Subprocess.start(
      .init("unshare", Self.isolation + ["sh", folder("rig.sh")], workingDirectory: folder.path), loop: loop)
  }

  func stop() async {
    await process.end(grace: .zero)
    loop.stop()
  }

  /// Waits until the services are on the bus.
  func isUp() async -> Bool {
    await eventually(within: .seconds(30)) {
      guard let bus = try? await Bus.open(address, loop: loop) else { return false }
      let owner = try? await bus.owner(of: GeoClueClient.service, timeout: .seconds(2))
      await bus.close()
      return (owner ?? nil) != nil
    }
  }

  var address: Bus.Address { .address("unix:path=\(folder("bus"))") }

  func locator() -> Locator {
    var options = LocationOptions()
    options.choice = .only(.geoclue)
    return Locator(options: options, systemBus: SharedBus(address, loop: loop))
  }

  private static func desktopFile() throws -> String {
    let project = String(#filePath).split(separator: "/").dropLast(3).reduce("") { $0 + "/" + $1 }
    let file = try String(contentsOfFile: project + "/config/org.talknode.TalkNode.desktop", encoding: .utf8)
    // A file whose program is not there counts as none.
    return file.replacing("@bindir@/talknode", with: "/bin/true")
  }

  private static func script(_ folder: String, hasAgent: Bool) -> String {
    """
    set -e
    ip link set lo up
    # An address that is no loopback one, or names are not looked up at all.
    ip address add 192.0.2.1/32 dev lo
    mkdir etc
    # avahi gives its folder to its own user: here that is us.
    printf 'root:x:0:0::/:/bin/sh\\navahi:x:%d:%d::/:/bin/sh\\n' $(id -u) $(id -g) > etc/passwd
    printf 'root:x:0:\\navahi:x:%d:\\n' $(id -g) > etc/group
    printf '127.0.0.1 localhost talknode-test.local\\n' > etc/hosts
    for name in passwd group hosts; do mount --bind etc/$name /etc/$name; done
    mount -t tmpfs none /run
    mount --bind geoclue.conf /etc/geoclue/geoclue.conf
    export DBUS_SYSTEM_BUS_ADDRESS=unix:path=\(folder)/bus DBUS_SESSION_BUS_ADDRESS=unix:path=\(folder)/bus
    export XDG_DATA_HOME=\(folder)/data GIO_USE_PROXY_RESOLVER=dummy
    dbus-daemon --config-file=bus.conf --nofork &
    while [ ! -S bus ]; do sleep 0.02; done
    avahi-daemon -f \(folder)/avahi.conf --no-drop-root --no-chroot --no-rlimits >/dev/null 2>&1 &
    python3 receiver.py > port &
    while [ ! -s port ] || [ ! -S /run/avahi-daemon/socket ]; do sleep 0.02; done
    (while :; do avahi-publish-service receiver _nmea-0183._tcp $(cat port) && break; sleep 0.1; done) >/dev/null 2>&1 &
    /usr/libexec/geoclue -t 0 >/dev/null 2>&1 & echo $! > geoclue.pid
    \(hasAgent ? "while :; do /usr/libexec/geoclue-2.0/demos/agent >/dev/null 2>&1; sleep 0.1; done &" : "")
    while [ ! -e kill ]; do sleep 0.05; done
    kill -9 $(cat geoclue.pid)
    sleep 3600
    """
  }

  /// A receiver on the network: whoever connects gets its sentences twice a second.
  private static let receiver = """
    import datetime, socket, threading, time
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(5)
    print(listener.getsockname()[1], flush=True)
    def sentence(text):
        check = 0
        for character in text.encode():
            check ^= character
        return f"${text}*{check:02X}\\r\\n".encode()
    def serve(client):
        try:
            while True:
                now = datetime.datetime.now(datetime.timezone.utc)
                place = "5222.2000,N,00453.7000,E"
                client.sendall(sentence(f"GPGGA,{now:%H%M%S}.00,{place},1,08,0.9,12.3,M,46.9,M,,")
                               + sentence(f"GPRMC,{now:%H%M%S}.00,A,{place},010.0,045.0,{now:%d%m%y},,,A"))
                time.sleep(0.5)
        except OSError:
            pass
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
    """

  private static let avahi = """
    [server]
    host-name=talknode-test
    allow-interfaces=lo
    use-ipv6=no
    enable-dbus=yes
    [wide-area]
    enable-wide-area=no
    [publish]
    publish-workstation=no
    """

  private static let geoclue = """
    [agent]
    whitelist=geoclue-demo-agent
    [network-nmea]
    enable=true
    [3g]
    enable=false
    [cdma]
    enable=false
    [modem-gps]
    enable=false
    [wifi]
    enable=false
    url=
    submit-data=false
    submission-url=
    submission-nick=geoclue
    [compass]
    enable=false
    """
}

@Suite(
  .enabled(
    if: GeoClueRig.isPossible, "GeoClue, avahi and namespaces of one's own are needed: see config/debian-packages.txt"),
  .serialized)
struct RealGeoClueTests {
  @Test("the real GeoClue, with a receiver on the network: a present fix, whose accuracy of 0 is not taken for exact")
  func fix() async throws {
    try await GeoClueRig.with(hasAgent: true) { rig, locator in
      var found: Fix?
      var last: LocationError?
      // Until avahi has announced the receiver, GeoClue has no source.
      _ = await eventually(within: .seconds(40)) {
        do throws(LocationError) {
          found = try await locator.locate(LocationRequest(deadline: Monotonic.now() + .seconds(10), detail: .precise))
            .fix
        } catch {
          last = error
        }
        return found != nil
      }
      let fix = try #require(found, "\(String(describing: last))")
      #expect(abs(fix.latitude - 52.37) < 1e-6 && abs(fix.longitude - 4.895) < 1e-6)
      #expect(fix.accuracyMeters >= 100 && !fix.isPrecise)
      #expect(abs(fix.timeMs - WallClock.milliseconds()) < 15_000)
      // It ends as a crash does.
      let news = await locator.follow(.geoclue)
      try rig.folder.write("kill", "")
      let trouble = try await withDeadline(.seconds(30)) { () -> LocationError? in
        for await piece in news { if case .trouble(let error) = piece { return error } }
        return nil
      }
      #expect(trouble?.code == .unavailable, "\(String(describing: trouble))")
    }
  }

  @Test("the real GeoClue without an agent never answers, and that is told as it is")
  func noAgent() async throws {
    try await GeoClueRig.with(hasAgent: false) { _, locator in
      let refusal = try #require(await locator.refusal(within: .seconds(30)))
      #expect(refusal.code == .disabled && refusal.summary.contains("no agent"), "\(refusal)")
    }
  }
}
