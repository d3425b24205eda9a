import Glibc
import System
import Testing

@Suite struct ProgramCodeTests {
  @Test("code that was given back is there again when it is called, on every thread, and is not resident before")
  func givenBack() async throws {
    func resident() -> Int {
      let text = Files.text("/proc/self/status") ?? ""
      let line = text.split(separator: "\n").first { $0.hasPrefix("RssFile:") }
      return line.flatMap { Int($0.split(separator: " ")[1]) } ?? 0
    }
    let before = resident()
    ProgramCode.giveBack()
    #expect(resident() < before)
    await withTaskGroup(of: Int.self) { group in
      for number in 0..<16 {
        group.addTask {
          ProgramCode.giveBack()
          return (0..<1000).map { "\($0 + number)" }.joined().utf8.count
        }
      }
      for await count in group { #expect(count >= 2890) }
    }
  }
}
