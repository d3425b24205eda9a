/// What libFuzzer runs: one decoder of foreign bytes, named by the environment (`FUZZ_TARGET`), thousands of times a second.
///
/// A target is a function that must come back for every input. What it must hold beside not crashing is a `precondition`
/// in it. Add one with a file of its own, a line in `targets`, and a folder of seeds in `Corpus/` with its name.
import Glibc

let targets: [String: @Sendable (UnsafeRawBufferPointer) -> Void] = [
  "configuration": fuzzConfiguration,
  "encoder": fuzzEncoder,
  "health-apple": fuzzHealthApple,
  "health-database": fuzzHealthDatabase,
  "health-fit": fuzzHealthFIT,
  "health-index": fuzzHealthIndex,
  "health-json": fuzzHealthJSON,
  "health-rows": fuzzHealthRows,
  "health-zip": fuzzHealthZip,
  "http": fuzzHTTP,
  "jpeg": fuzzJPEG,
  "json": fuzzJSON,
  "location": fuzzLocation,
  "recording": fuzzRecording,
  "setup-code": fuzzOffer,
  "speech": fuzzSpeech,
  "talk-events": fuzzTalkEvents,
  "time-zone": fuzzTimeZone,
  "websocket": fuzzWebSocket,
]

let target: @Sendable (UnsafeRawBufferPointer) -> Void = {
  guard let name = getenv("FUZZ_TARGET").map({ String(cString: $0) }), let target = targets[name] else {
    fatalError("FUZZ_TARGET must be one of: " + targets.keys.sorted().joined(separator: " "))
  }
  return target
}()

@_cdecl("LLVMFuzzerTestOneInput")
public func testOneInput(_ bytes: UnsafePointer<UInt8>?, _ count: Int) -> Int32 {
  target(UnsafeRawBufferPointer(start: bytes, count: count))
  return 0
}
