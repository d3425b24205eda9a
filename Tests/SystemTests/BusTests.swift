import Glibc
import System
import TestSupport
import Testing

/// D-Bus against a real dbus-daemon and real peers.
@Suite("D-Bus") struct BusTests {
  /// One value of every type, and containers in containers.
  static let everything: [DBusValue] = [
    .byte(255), .bool(true), .bool(false), .int16(-32768), .uint16(65535), .int32(.min), .uint32(.max), .int64(.min),
    .uint64(.max), .double(-0.25), .string("naïve 🎈"), .string(""), .objectPath("/a/b"), .signature("a{sv}"),
    .bytes([]),
    .bytes([0, 1, 255]), .strings(["a", "b"]), .array([], of: "(si)"),
    .array([.structure([.string("x"), .int32(1)]), .structure([.string("y"), .int32(2)])], of: "(si)"),
    .options(["one": .uint32(1), "nested": .options(["deep": .variant(.bytes([7]))])]),
    .dictionary([.init(.uint32(1), .strings(["z"]))], key: "u", value: "as"), .variant(.variant(.double(1.5))),
    .structure([
      .byte(1), .structure([.bool(true), .array([.array([.bytes([9])], of: "ay")], of: "aay")]),
    ]),
  ]

  @Test("every type goes out and comes back as it was")
  func echoesEverything() async throws {
    try await PrivateBus.with { bus in
      let server = try await bus.connect()
      let client = try await bus.connect()
      _ = try await server.export("/echo") { call throws(DBusError) in call.arguments }
      let name = try await server.uniqueName()
      #expect(try await client.call(name, "/echo", "x.Echo", "All", Self.everything) == Self.everything)
    }
  }

  @Test("a service's error comes with its name and its text")
  func errors() async throws {
    try await PrivateBus.with { bus in
      let server = try await bus.connect()
      let client = try await bus.connect()
      _ = try await server.export("/lock") { call throws(DBusError) in
        throw DBusError("x.Lock.Closed", "no key: \(call.member)")
      }
      let name = try await server.uniqueName()
      await #expect(throws: DBusError("x.Lock.Closed", "no key: Open")) {
        try await client.call(name, "/lock", "x.Lock", "Open")
      }
      let missing = try await busFailure { try await client.call("x.nobody", "/", "x.Y", "Z") }
      #expect(missing.isServiceMissing)
      let noObject = try await busFailure { try await client.call(name, "/elsewhere", "x.Y", "Z") }
      #expect(noObject.name == "org.freedesktop.DBus.Error.UnknownObject")
    }
  }

  @Test("a peer that never answers costs the deadline and not more; one that is given up, not even that")
  func deadlineAndCancellation() async throws {
    try await PrivateBus.with { bus in
      let server = try await bus.connect()
      let client = try await bus.connect()
      _ = try await server.export("/") { _ throws(DBusError) in
        try? await Task.sleep(for: .seconds(3600))
        return []
      }
      let name = try await server.uniqueName()
      let late = try await busFailure { try await client.call(name, "/", "x.Y", "Sleep", timeout: .milliseconds(30)) }
      #expect(late.isNoReply)
      let call = Task { try await client.call(name, "/", "x.Y", "Sleep", timeout: .seconds(3600)) }
      call.cancel()
      let cancelled = try await busFailure { try await call.value }
      #expect(cancelled.name == "System.Error.ECANCELED")
      // The connection goes on.
      #expect(try await client.owner(of: name) == name)
    }
  }

  @Test("signals come to who asked for them, in order, and to nobody else")
  func signals() async throws {
    try await PrivateBus.with { bus in
      let server = try await bus.connect()
      let client = try await bus.connect()
      let quoted = try await busFailure { try await client.signals(DBusMatch(firstArgument: "it's")) }
      #expect(quoted.name == "System.Error.EBADMSG")
      let stream = try await client.signals(
        DBusMatch(path: "/lamp", interface: "x.Lamp", member: "Changed", firstArgument: "red"))
      try await server.emit("/lamp", "x.Lamp", "Changed", [.string("blue")])
      for number in 1...3 {
        try await server.emit("/lamp", "x.Lamp", "Changed", [.string("red"), .int32(Int32(number))])
      }
      var seen: [DBusValue] = []
      for await signal in stream {
        seen.append(signal.arguments[1])
        if seen.count == 3 { break }
      }
      #expect(seen == [.int32(1), .int32(2), .int32(3)])
    }
  }

  @Test("a name's coming and going is seen; a name that is taken is refused")
  func names() async throws {
    try await PrivateBus.with { bus in
      let first = try await bus.connect()
      let second = try await bus.connect()
      let watcher = try await bus.connect()
      var owners = try await watcher.owners(of: "x.Lamp").makeAsyncIterator()
      #expect(try await watcher.owner(of: "x.Lamp") == nil)
      try await first.requestName("x.Lamp")
      let unique = try await first.uniqueName()
      #expect(await owners.next() == .some(unique))
      let taken = try await busFailure { try await second.requestName("x.Lamp") }
      #expect(taken.name == "System.Error.EEXIST")
      await first.close()
      #expect(await owners.next() == .some(nil))
      try await second.requestName("x.Lamp")
      try await second.releaseName("x.Lamp")
      #expect(try await watcher.owner(of: "x.Lamp") == nil)
    }
  }

  @Test("a descriptor goes through a message and still is the same pipe")
  func descriptors() async throws {
    try await PrivateBus.with { bus in
      let server = try await bus.connect()
      let client = try await bus.connect()
      _ = try await server.export("/pipe") { call throws(DBusError) in
        guard let end = call.arguments.first?.descriptor else { throw DBusError("x.Bad", "no descriptor") }
        _ = write(end.number, "hello", 5)
        return [.descriptor(end)]
      }
      var ends: [Int32] = [0, 0]
      #expect(pipe(&ends) == 0)
      let reading = DBusDescriptor(owning: ends[0])
      let reply = try await client.call(
        try await server.uniqueName(), "/pipe", "x.Pipe", "Write", [.descriptor(DBusDescriptor(owning: ends[1]))])
      _ = write(try #require(reply.first?.descriptor).number, "!", 1)
      var text = [UInt8](repeating: 0, count: 16)
      #expect(read(reading.number, &text, 16) == 6)
      #expect(text.starts(with: "hello!".utf8))
    }
  }

  @Test("properties are read one by one and all at once")
  func properties() async throws {
    try await PrivateBus.with { bus in
      let server = try await bus.connect()
      let client = try await bus.connect()
      _ = try await server.export("/battery") { call throws(DBusError) in
        switch call.member {
        case "Get" where call.arguments == [.string("x.Battery"), .string("Level")]: [.variant(.double(83))]
        case "GetAll": [.options(["Level": .double(83), "State": .uint32(2)])]
        default: throw DBusError("org.freedesktop.DBus.Error.UnknownProperty", "none such")
        }
      }
      let name = try await server.uniqueName()
      #expect(try await client.property(name, "/battery", "x.Battery", "Level").double == 83)
      let all = try await client.properties(name, "/battery", "x.Battery")
      #expect(all == ["Level": .double(83), "State": .uint32(2)])
    }
  }

  @Test("when the bus dies, calls fail and streams end; the shared connection finds the next bus")
  func lostConnection() async throws {
    try await PrivateBus.with { bus in
      let client = try await bus.connect()
      let server = try await bus.connect()
      _ = try await server.export("/") { _ throws(DBusError) in
        try? await Task.sleep(for: .seconds(3600))
        return []
      }
      let name = try await server.uniqueName()
      let stream = try await client.signals(DBusMatch(interface: "x.Y"))
      let call = Task { try await client.call(name, "/", "x.Y", "Sleep", timeout: .seconds(60)) }
      let shared = SharedBus(bus.address, loop: bus.loop)
      let before = try await shared.bus()
      await bus.kill()
      let lost = try await busFailure { try await call.value }
      #expect(lost.isConnectionFailure || lost.isNoReply)
      for await _ in stream {}
      let areClosed = await eventually {
        let isOpen = [await client.isOpen, await before.isOpen]
        return isOpen == [false, false]
      }
      #expect(areClosed)
      let closed = try await busFailure { try await client.call(name, "/", "x.Y", "Sleep") }
      #expect(closed.isConnectionFailure)
      let gone = try await busFailure { try await shared.bus().call(name, "/", "x.Y", "Z") }
      #expect(gone.isConnectionFailure || gone.isNoReply)
    }
  }

  @Test("a bus that isn't there is an error at once; one that never greets is one at the deadline")
  func noBus() async throws {
    let loop = EventLoop(name: "test")
    defer { loop.stop() }
    let folder = TemporaryFolder()
    let missing = try await busFailure {
      try await Bus.open(.address("unix:path=" + folder("none")), loop: loop).call("x.y", "/", "x.Y", "Z")
    }
    #expect(missing.isConnectionFailure)

    let silent = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(silent) }
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: folder("silent").utf8) }
    let bound = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(silent, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    #expect(bound == 0 && listen(silent, 1) == 0)
    let bus = try await Bus.open(.address("unix:path=" + folder("silent")), loop: loop)
    let late = try await busFailure { try await bus.call("x.y", "/", "x.Y", "Z", timeout: .milliseconds(30)) }
    #expect(late.isNoReply)
    await bus.close()
  }

  @Test("a message beyond the bounds is refused, in both directions")
  func bounds() async throws {
    try await PrivateBus.with { bus in
      let server = try await bus.connect()
      let client = try await bus.connect()
      _ = try await server.export("/") { call throws(DBusError) in call.arguments }
      let name = try await server.uniqueName()
      var deep = DBusValue.byte(1)
      for _ in 0..<40 { deep = .variant(deep) }
      await #expect(throws: DBusError.self) { try await client.call(name, "/", "x.Y", "Echo", [deep]) }
      let many = DBusValue.array([DBusValue](repeating: .byte(1), count: 70_000).map { .structure([$0]) }, of: "(y)")
      let refused = try await busFailure { try await client.call(name, "/", "x.Y", "Echo", [many]) }
      #expect(refused.name == "System.Error.EBADMSG")
      await #expect(throws: DBusError.self) { try await client.call(name, "/", "x.Y", "Echo", [.string("a\0b")]) }
      await #expect(throws: DBusError.self) {
        try await client.call(name, "/", "x.Y", "Echo", [.array([.byte(1)], of: "s")])
      }
      await #expect(throws: DBusError.self) { try await client.call(name, "no path", "x.Y", "Echo") }
      // None of that costs the connection.
      #expect(try await client.call(name, "/", "x.Y", "Echo", [.byte(1)]) == [.byte(1)])
    }
  }

  @Test("random values survive the way", arguments: 0..<3)
  func randomValues(_: Int) async throws {
    var random = SeededRandom()
    try await PrivateBus.with { bus in
      let server = try await bus.connect()
      let client = try await bus.connect()
      _ = try await server.export("/echo") { call throws(DBusError) in call.arguments }
      let name = try await server.uniqueName()
      for _ in 0..<50 {
        let values = (0..<Int.random(in: 0...4, using: &random)).map { _ in DBusValue.random(depth: 4, using: &random) }
        let seed = random.seed
        #expect(try await client.call(name, "/echo", "x.Echo", "All", values) == values, "seed \(seed)")
      }
    }
  }

  @Test("a hundred calls at once are all answered")
  func concurrency() async throws {
    try await PrivateBus.with { bus in
      let server = try await bus.connect()
      let client = try await bus.connect()
      _ = try await server.export("/") { call throws(DBusError) in
        await Task.yield()
        return call.arguments
      }
      let name = try await server.uniqueName()
      let sum = try await withThrowingTaskGroup(of: Int64.self) { group in
        for number in 1...100 {
          group.addTask { try await client.call(name, "/", "x.Y", "Echo", [.int32(Int32(number))]).first?.int ?? 0 }
        }
        return try await group.reduce(0, +)
      }
      #expect(sum == 5050)
    }
  }
}

/// The error that `body` ends with.
func busFailure<Value>(_ body: () async throws -> Value) async throws -> DBusError {
  do { _ = try await body() } catch let error as DBusError { return error }
  return try #require(nil as DBusError?, "it did not fail")
}

extension DBusValue {
  fileprivate static func random(depth: Int, using random: inout SeededRandom) -> DBusValue {
    switch Int.random(in: 0..<(depth > 0 ? 14 : 10), using: &random) {
    case 0: .byte(.random(in: 0 ... .max, using: &random))
    case 1: .bool(.random(using: &random))
    case 2: .int16(.random(in: .min ... .max, using: &random))
    case 3: .uint16(.random(in: 0 ... .max, using: &random))
    case 4: .int32(.random(in: .min ... .max, using: &random))
    case 5: .uint32(.random(in: 0 ... .max, using: &random))
    case 6: .int64(.random(in: .min ... .max, using: &random))
    case 7: .uint64(.random(in: 0 ... .max, using: &random))
    case 8:
      .string(
        String((0..<Int.random(in: 0...20, using: &random)).map { _ in "aß漢🎈\n\"".randomElement(using: &random)! }))
    case 9: .bytes((0..<Int.random(in: 0...20, using: &random)).map { _ in .random(in: 0 ... .max, using: &random) })
    case 10: .variant(.random(depth: depth - 1, using: &random))
    case 11:
      .structure((0..<Int.random(in: 1...3, using: &random)).map { _ in .random(depth: depth - 1, using: &random) })
    case 12:
      .array(
        (0..<Int.random(in: 0...3, using: &random)).map { _ in .variant(.random(depth: depth - 1, using: &random)) },
        of: "v")
    default:
      .dictionary(
        (0..<Int.random(in: 0...3, using: &random)).map {
          .init(.string("k\($0)"), .variant(.random(depth: depth - 1, using: &random)))
        }, key: "s", value: "v")
    }
  }
}
