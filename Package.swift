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
    .executable(name: "talknode", targets: ["talknode"])
  ],
  targets: [
    .executableTarget(
      name: "talknode",
      dependencies: [
        "DevGateway", "DeviceModule", "NotifyModule", "NodeKit", "GatewayClient", "GatewayProtocol", "Transport",
        "Configuration", "Crypto", "System",
      ],
      swiftSettings: strict),
    room("DevGateway", ["GatewayProtocol", "Transport", "Crypto", "System"]),
    room("DeviceModule", ["NodeKit", "System"]),
    room("NotifyModule", ["NodeKit", "System"]),
    room("NodeKit", ["GatewayProtocol", "System"]),
    room("GatewayClient", ["GatewayProtocol", "Transport", "Crypto", "System"]),
    room("GatewayProtocol", []),
    room("Transport", ["Crypto", "System", "COpenSSL"]),
    room("Configuration", ["System", "CTOML"]),
    room("Crypto", ["COpenSSL"]),
    room("System", ["CLinux", "CSystemd"]),

    .systemLibrary(name: "CLinux"),
    .systemLibrary(name: "COpenSSL", providers: [.apt(["libssl-dev"])]),
    .systemLibrary(name: "CSystemd", providers: [.apt(["libsystemd-dev"])]),
    .target(name: "CTOML"),

    tests("SystemTests", ["System"]),
    tests("GatewayProtocolTests", ["GatewayProtocol"]),
    tests("CryptoTests", ["Crypto", "System"]),
    tests("TransportTests", ["Transport", "Crypto", "System", "COpenSSL"]),
    tests("GatewayClientTests", ["GatewayClient", "DevGateway", "GatewayProtocol", "Transport", "Crypto", "System"]),
    tests("NodeKitTests", ["NodeKit", "DeviceModule", "NotifyModule", "GatewayProtocol", "System"]),
    tests("DevGatewayTests", ["DevGateway", "GatewayProtocol", "Transport", "Crypto", "System"]),
    tests("ConfigurationTests", ["Configuration", "System"]),
  ],
  cxxLanguageStandard: .cxx17
)
