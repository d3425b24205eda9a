import Crypto
import Glibc
import System
import TestSupport
import Testing

@testable import GatewayClient

@Suite("The device's identity")
struct IdentityTests {
  let folder = TemporaryFolder()

  @Test("is made once, in a file that only its owner reads")
  func madeOnce() throws {
    let state = try folder.state()
    let first = try DeviceIdentity.loadOrCreate(in: state)
    let second = try DeviceIdentity.loadOrCreate(in: state)
    #expect(first.id == second.id)
    #expect(first.id == hexadecimal(sha256(first.publicKey)))
    #expect(first.createdAtMs == second.createdAtMs)
    var status = stat()
    #expect(stat(state.identity, &status) == 0 && status.st_mode & 0o777 == 0o600)
    #expect(stat(state.path, &status) == 0 && status.st_mode & 0o777 == 0o700)
    #expect(Files.list(state.path) == ["identity.json"])
    let signature = try second.sign("hello")
    #expect(SigningKey.verify(signature, of: Array("hello".utf8), publicKey: first.publicKey))
  }

  @Test("that is damaged stops the start, now and every time after, and is kept")
  func damaged() throws {
    let damages = ["", "{", "{}", #"{"seed":"AAAA"}"#, String(repeating: "x", count: 70_000)]
    for damage in damages {
      let state = try StateFolder(path: folder.path + "/damaged-\(damage.utf8.count)")
      try Files.writeAtomically(Array(damage.utf8), to: state.identity)
      for _ in 1...2 {
        let error = #expect(throws: LinkError.self) { try DeviceIdentity.loadOrCreate(in: state) }
        #expect(error?.code == .identityDamaged)
        #expect(error?.remedy?.contains("rm '\(state.path)/identity.json.damaged-") == true)
      }
      #expect(!Files.exists(state.identity))
      let kept = try #require(Files.list(state.path).first { $0.hasPrefix("identity.json.damaged-") })
      #expect(try Files.read(state.path + "/" + kept) == Array(damage.utf8))
      // The person has decided to become a new device.
      try Files.removeTree(state.path + "/" + kept)
      _ = try DeviceIdentity.loadOrCreate(in: state)
    }
  }

  @Test("whose id was edited is damaged too, and a backup put back heals it")
  func editedAndHealed() throws {
    let state = try folder.state()
    let identity = try DeviceIdentity.loadOrCreate(in: state)
    let backup = try Files.read(state.identity)
    let edited = String(decoding: backup, as: UTF8.self).replacing(identity.id, with: String(repeating: "0", count: 64))
    try Files.writeAtomically(Array(edited.utf8), to: state.identity)
    #expect(throws: LinkError.self) { try DeviceIdentity.loadOrCreate(in: state) }
    try Files.writeAtomically(backup, to: state.identity)
    #expect(try DeviceIdentity.loadOrCreate(in: state).id == identity.id)
  }

  @Test("is whole or absent whatever a crash leaves behind")
  func crashLeftovers() throws {
    let state = try folder.state()
    // What a kill may leave: an unfinished temporary file, and a finished one that was not linked yet.
    try Files.writeAtomically(Array(#"{"seed":"#.utf8), to: state.identity + ".fresh-1-aa.new-1")
    try Files.writeAtomically(
      try DeviceIdentity(seed: Random.bytes(32), createdAtMs: 1).encoded(), to: state.identity + ".fresh-1-bb")
    let identity = try DeviceIdentity.loadOrCreate(in: state)
    #expect(try DeviceIdentity.loadOrCreate(in: state).id == identity.id)
    // Keys that nobody uses are not left lying about.
    #expect(Files.list(state.path) == ["identity.json"])
  }

  @Test("is the same for programs that start at once")
  func race() async throws {
    let state = try folder.state()
    let ids = try await withThrowingTaskGroup(of: String.self) { group in
      for _ in 0..<16 { group.addTask { @concurrent in try DeviceIdentity.loadOrCreate(in: state).id } }
      return try await group.reduce(into: Set<String>()) { $0.insert($1) }
    }
    #expect(ids.count == 1)
    #expect(Files.list(state.path) == ["identity.json"])
  }

  @Test("folders of other users are refused, open ones closed")
  func foldersClosed() throws {
    let path = folder.path + "/open"
    try Files.makeFolder(path, mode: 0o755)
    chmod(path, 0o755)
    _ = try StateFolder(path: path + "/")
    var status = stat()
    #expect(stat(path, &status) == 0 && status.st_mode & 0o777 == 0o700)
    #expect(throws: LinkError.self) { try StateFolder(path: "/proc/nothing/here") }
  }

  @Test("a folder that holds other things is not closed because it was named, and a file is none")
  func foldersOfOthers() throws {
    let home = folder.path + "/home"
    try Files.makeFolder(home)
    chmod(home, 0o755)
    try Files.writeAtomically([1], to: home + "/letter")
    let shared = folder.path + "/shared"
    try Files.makeFolder(shared)
    chmod(shared, 0o1777)
    for path in [home, shared, home + "/letter"] {
      var before = stat()
      stat(path, &before)
      #expect(throws: LinkError.self) { try StateFolder(path: path) }
      var after = stat()
      #expect(stat(path, &after) == 0 && after.st_mode == before.st_mode, "\(path)")
    }
    // This device's own is closed again, whatever else lies in it.
    try Files.writeAtomically([1], to: home + "/identity.json")
    _ = try StateFolder(path: home)
    var status = stat()
    #expect(stat(home, &status) == 0 && status.st_mode & 0o777 == 0o700)
  }
}
