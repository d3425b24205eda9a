// swift-tools-version: 6.2
import PackageDescription

// The table of rooms. An arrow only ever points down this list; ARCHITECTURE.md says what may lie in each.

let strict: [SwiftSetting] = [
  .treatAllWarnings(as: .error),
  // An async function that is not isolated runs where its caller runs, so that a request is answered on the loop
  // that read it. Work that blocks or computes for long says `@concurrent` or has a thread of its own.
  .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
]

func room(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
  .target(name: name, dependencies: dependencies, swiftSettings: strict)
}

func tests(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
  .testTarget(name: name, dependencies: dependencies, swiftSettings: strict)
}

let package = Package(
  name: "talknode",
  products: [
    .executable(name: "talknode", targets: ["talknode"]),
    .executable(name: "talknode-encoder", targets: ["talknode-encoder"]),
  ],
  targets: [
    .executableTarget(
      name: "talknode",
      dependencies: [
        "DevGateway", "TalkModule", "CameraModule", "LocationModule", "HealthModule", "DeviceModule", "NotifyModule",
        "Triggers", "Conversation", "Speech", "Camera", "Audio", "Location", "Health", "NodeKit", "GatewayClient",
        "GatewayProtocol", "Transport", "Configuration", "Crypto", "System",
      ],
      swiftSettings: strict),
    room("DevGateway", ["GatewayProtocol", "Transport", "Crypto", "System"]),
    room("HealthModule", ["NodeKit", "Health", "GatewayProtocol", "System"]),
    room("DeviceModule", ["NodeKit", "System", "CLinux"]),
    room("NotifyModule", ["NodeKit", "System"]),
    room("LocationModule", ["NodeKit", "Location", "GatewayProtocol", "System"]),
    room("TalkModule", ["NodeKit", "Conversation", "GatewayProtocol", "System"]),
    room("CameraModule", ["NodeKit", "Camera", "Audio", "GatewayProtocol", "Crypto", "System"]),
    room("NodeKit", ["GatewayProtocol", "System"]),
    room("Conversation", ["GatewayClient", "GatewayProtocol", "Speech", "Audio", "Crypto", "System"]),
    room("Triggers", ["System", "CInput"]),
    room("GatewayClient", ["GatewayProtocol", "Transport", "Crypto", "System"]),
    room("Speech", ["Audio", "GatewayProtocol", "Crypto", "System", "CEspeak", "CPocketsphinx"]),
    room("Health", ["GatewayProtocol", "System", "CSQLite", "CZlib"]),
    room("GatewayProtocol", []),
    room("Transport", ["Crypto", "System", "COpenSSL"]),
    room("Configuration", ["System", "CTOML"]),
    room("Crypto", ["COpenSSL"]),
    room("Audio", ["System", "CLinux", "CPulse", "CALSA", "CSndfile", "CMpg123", "CSamplerate"]),
    room("Camera", ["EncoderProtocol", "System", "CLinux", "CV4L2", "CTurboJPEG"]),
    // A program of its own, and the one that links media libraries.
    .executableTarget(name: "talknode-encoder", dependencies: ["EncoderProtocol", "CAV"], swiftSettings: strict),
    room("EncoderProtocol", []),
    room("Location", ["System", "CGPS"]),
    room("System", ["CLinux", "CSystemd"]),

    .systemLibrary(name: "CLinux"),
    .systemLibrary(name: "CInput"),
    // Headers only: these are opened at run time when sound, speech or a place is first asked for.
    .systemLibrary(name: "CEspeak", providers: [.apt(["libespeak-ng-dev"])]),
    .target(name: "CPocketsphinx"),
    .systemLibrary(name: "CPulse", providers: [.apt(["libpulse-dev"])]),
    .systemLibrary(name: "CALSA", providers: [.apt(["libasound2-dev"])]),
    .systemLibrary(name: "CSndfile", providers: [.apt(["libsndfile1-dev"])]),
    .systemLibrary(name: "CGPS", providers: [.apt(["libgps-dev"])]),
    .systemLibrary(name: "CMpg123", providers: [.apt(["libmpg123-dev"])]),
    .systemLibrary(name: "CSamplerate", providers: [.apt(["libsamplerate0-dev"])]),
    .systemLibrary(name: "CV4L2", providers: [.apt(["libv4l-dev"])]),
    .systemLibrary(name: "CTurboJPEG", providers: [.apt(["libturbojpeg0-dev"])]),
    .systemLibrary(
      name: "CAV",
      providers: [
        .apt(["libavcodec-dev", "libavformat-dev", "libavutil-dev", "libswresample-dev", "libswscale-dev"])
      ]),
    .systemLibrary(name: "CSQLite", providers: [.apt(["libsqlite3-dev"])]),
    .systemLibrary(name: "CZlib", providers: [.apt(["zlib1g-dev"])]),
    .systemLibrary(name: "COpenSSL", providers: [.apt(["libssl-dev"])]),
    .systemLibrary(name: "CSystemd", providers: [.apt(["libsystemd-dev"])]),
    .target(name: "CTOML"),

    .target(name: "TestSupport", dependencies: ["System"], path: "Tests/TestSupport", swiftSettings: strict),
    tests("ConversationTests", ["Conversation", "GatewayProtocol", "System", "TestSupport"]),
    tests(
      "TalkTests",
      [
        "talknode", "Configuration", "Conversation", "DevGateway", "GatewayClient", "Speech", "Audio",
        "GatewayProtocol", "NodeKit", "Transport", "System", "TestSupport", "LinkTestSupport",
      ]),
    // Run in the guest of `make test-vm`.
    tests(
      "GuestTests",
      [
        "Camera", "DevGateway", "GatewayProtocol", "Speech", "Audio", "Triggers", "System", "TestSupport", "CUInput",
        "CV4L2",
        "CLinux",
      ]),
    .systemLibrary(name: "CUInput", path: "Tests/CUInput"),
    tests("TriggersTests", ["Triggers", "System", "TestSupport"]),
    tests("SystemTests", ["System", "TestSupport"]),
    tests("GatewayProtocolTests", ["GatewayProtocol", "TestSupport"]),
    tests("TransportTests", ["Transport", "Crypto", "System", "COpenSSL", "TestSupport"]),
    .target(
      name: "LinkTestSupport",
      dependencies: ["GatewayClient", "DevGateway", "GatewayProtocol", "Transport", "System", "TestSupport"],
      path: "Tests/LinkTestSupport", swiftSettings: strict),
    tests(
      "GatewayClientTests",
      [
        "GatewayClient", "DevGateway", "GatewayProtocol", "Transport", "Crypto", "System", "TestSupport",
        "LinkTestSupport",
      ]),
    tests(
      "FaultTests",
      ["GatewayClient", "DevGateway", "GatewayProtocol", "Transport", "System", "TestSupport", "LinkTestSupport"]),
    tests("NodeKitTests", ["NodeKit", "GatewayProtocol", "System", "TestSupport", "DeviceModule", "NotifyModule"]),
    tests("DeviceModuleTests", ["DeviceModule", "NodeKit", "GatewayProtocol", "System", "TestSupport"]),
    tests("HealthTests", ["Health", "System", "TestSupport"]),
    tests("HealthModuleTests", ["HealthModule", "Health", "NodeKit", "GatewayProtocol", "System", "TestSupport"]),
    tests("NotifyModuleTests", ["NotifyModule", "NodeKit", "GatewayProtocol", "System", "TestSupport"]),
    tests("DevGatewayTests", ["DevGateway", "GatewayProtocol", "Transport", "Crypto", "System", "TestSupport"]),
    tests("SpeechHangs", ["Speech", "Audio", "System", "TestSupport"]),
    tests("SpeechTests", ["Speech", "Audio", "GatewayProtocol", "System", "TestSupport"]),
    tests("LocationTests", ["Location", "System", "TestSupport"]),
    tests(
      "LocationModuleTests", ["LocationModule", "Location", "NodeKit", "GatewayProtocol", "System", "TestSupport"]),
    tests("AudioTests", ["Audio", "System", "TestSupport"]),
    tests("ConfigurationTests", ["Configuration", "System", "TestSupport"]),
    tests(
      "CommandLineTests",
      [
        "talknode", "Conversation", "DevGateway", "NodeKit", "Speech", "Audio", "GatewayProtocol", "Transport",
        "Configuration", "Crypto", "System", "TestSupport",
      ]),
    tests("EncoderTests", ["Camera", "EncoderProtocol", "System", "TestSupport"]),
    tests("CameraTests", ["Camera", "System", "TestSupport"]),
    tests(
      "CameraModuleTests", ["CameraModule", "Camera", "NodeKit", "GatewayProtocol", "Crypto", "System", "TestSupport"]),
    tests("CryptoTests", ["Crypto", "System"]),
  ],
  cxxLanguageStandard: .cxx17
)

// The programs of `make fuzz`, `make bench` and `make test-speech`, for those only: an ordinary build should not wait for them.
if Context.environment["TALKNODE_FUZZ"] != nil {
  package.targets.append(
    .executableTarget(
      name: "talknode-fuzz",
      dependencies: [
        "LocationModule", "Conversation", "Camera", "EncoderProtocol", "Location", "Health", "Speech", "GatewayClient",
        "GatewayProtocol", "Transport", "Configuration", "System",
      ],
      path: "Tests/Fuzz", exclude: ["Corpus", "run"],
      // libFuzzer brings the entry point.
      swiftSettings: strict + [.unsafeFlags(["-parse-as-library"])]))
}
if Context.environment["TALKNODE_BENCH"] != nil {
  package.targets.append(
    .executableTarget(
      name: "talknode-bench",
      dependencies: [
        "DevGateway", "LocationModule", "CameraModule", "HealthModule", "NodeKit", "GatewayClient", "Speech", "Camera",
        "Audio", "Location", "Health", "GatewayProtocol", "Transport", "Crypto", "System", "CLinux", "CTurboJPEG",
      ],
      path: "Tests/Bench", swiftSettings: strict))
}
if Context.environment["TALKNODE_CHECK_SPEECH"] != nil {
  package.targets.append(
    .executableTarget(
      name: "talknode-check-speech", dependencies: ["Speech", "Audio", "System"], path: "Tests/Speech/Check",
      swiftSettings: strict))
}

// One room, what it stands on and nothing else: `make room ROOM=Speech`. An unknown name leaves nothing to build, and SwiftPM says so.
if let rooms = Context.environment["TALKNODE_ROOMS"] {
  let byName = Dictionary(uniqueKeysWithValues: package.targets.map { ($0.name, $0) })
  var kept: Set<String> = []
  var open = rooms.split(separator: " ").map(String.init)
  // Programs that a suite runs and is not linked with.
  let programs = [
    "EncoderTests": "talknode-encoder", "GuestTests": "talknode", "talknode": "talknode-encoder",
  ]
  while let name = open.popLast() {
    guard let target = byName[name], kept.insert(name).inserted else { continue }
    if let program = programs[name] { open.append(program) }
    for case .byNameItem(let dependency, _) in target.dependencies { open.append(dependency) }
  }
  package.targets.removeAll { !kept.contains($0.name) }
  package.products.removeAll { !kept.contains($0.name) }
}
