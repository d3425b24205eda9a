// covers, as configuration: Sources/Configuration/LayeredSettings.swift Sources/Configuration/TOML.swift Sources/Configuration/Setting.swift
import Configuration

/// A settings file: any text gives settings, and its problems have a place in it.
@Sendable func fuzzConfiguration(_ bytes: UnsafeRawBufferPointer) {
  let layers = LayeredSettings(text: [UInt8](bytes), named: "fuzz.toml")
  let lines = bytes.reduce(1) { $1 == 0x0A ? $0 + 1 : $0 }
  for problem in layers.problems {
    precondition(problem.file == "fuzz.toml" && !problem.summary.isEmpty)
    if let line = problem.line { precondition((1...lines).contains(line), "line \(line) of \(lines): \(problem)") }
  }
}
