import Glibc
import System
import TestSupport
import Testing

@testable import NodeKit

@Suite("SwitchStore", .serialized) struct SwitchStoreTests {
  let folder = TemporaryFolder()
  private var store: SwitchStore { SwitchStore(path: folder("switches.json")) }

  @Test("what reveals a person is off until it is turned on; what reveals nobody is on until it is turned off")
  func defaults() throws {
    let store = store
    #expect(!store.isEnabled(ScriptedModule.camera) && store.isEnabled(ScriptedModule.notify))
    try store.set("camera", enabled: true)
    try store.set("notify", enabled: false)
    #expect(store.isEnabled(ScriptedModule.camera) && !store.isEnabled(ScriptedModule.notify))
    #expect(store.isEnabled("camera") && !store.isEnabled("location"))
  }

  @Test("a switch stays as it was turned, for its owner only")
  func persists() throws {
    try store.set("camera", enabled: true)
    try store.set("health", enabled: false)
    #expect(store.isEnabled("camera") && !store.isEnabled("health", default: true))
    var status = stat()
    #expect(stat(folder("switches.json"), &status) == 0 && status.st_mode & 0o777 == 0o600)
  }

  @Test("copies share their state, and another process's turns are seen after reading again")
  func shares() throws {
    let store = store
    let copy = store
    try store.set("camera", enabled: true)
    #expect(copy.isEnabled("camera"))
    try self.store.set("camera", enabled: false)
    #expect(store.isEnabled("camera"))
    store.reload()
    #expect(!copy.isEnabled("camera"))
  }

  @Test(
    "a damaged file is set aside and said, and everything that reveals a person is off",
    arguments: ["", "{", "[]", #"{"camera":1}"#, "\u{FEFF}true", #"{"camera":true} x"#])
  func damaged(_ text: String) throws {
    let said = Lock<[String]>([])
    Log.redirect { _, message in said.withLock { $0.append(message) } }
    defer { Log.redirect(nil) }
    try folder.write("switches.json", text)
    #expect(!store.isEnabled("camera"))
    let aside = try #require(Files.list(folder.path).first { $0.hasPrefix("switches.json.damaged-") })
    #expect(Files.text(folder(aside)) == text)
    #expect(!Files.exists(folder("switches.json")))
    #expect(said.withLock { $0 }.contains { $0.contains("damaged") })
  }

  @Test("a switch that can't be kept is not turned")
  func unwritable() throws {
    let store = SwitchStore(path: folder("missing/switches.json"))
    #expect(throws: SwitchStore.Failure.self) { try store.set("camera", enabled: true) }
    #expect(!store.isEnabled("camera"))
  }
}
