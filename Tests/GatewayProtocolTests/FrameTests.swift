import Testing

@testable import GatewayProtocol

@Suite("Frames")
struct FrameTests {
  @Test(
    "requests, responses and events are read and written the same",
    arguments: [
      #"{"id":"r-7","method":"node.event","params":{"event":"chat.subscribe"},"type":"req"}"#,
      #"{"id":"r-7","ok":true,"payload":{"a":1},"type":"res"}"#,
      #"{"error":{"code":"INVALID_REQUEST","message":"bad params","retryable":false},"id":"r-7","ok":false,"type":"res"}"#,
      #"{"event":"tick","payload":{"ts":1},"seq":4,"stateVersion":{"health":1,"presence":2},"type":"event"}"#,
    ])
  func roundTrip(text: String) throws {
    #expect(String(decoding: try Frame(decoding: Array(text.utf8)).encoded(), as: UTF8.self) == text)
  }

  @Test("a closed reader refuses unknown members and keeps the id for its answer; a client ignores them")
  func closed() throws {
    let bytes = Array(#"{"type":"req","id":"x","method":"m","bogus":1}"#.utf8)
    #expect(throws: FrameError.invalid("unexpected property 'bogus'", id: "x")) {
      try Frame(decoding: bytes, closed: true)
    }
    #expect(try Frame(decoding: bytes) == .request(.init(id: "x", method: "m")))
  }

  @Test(
    "what is no frame is refused",
    arguments: [
      "[]", "7", "{}", #"{"type":"req","method":"m"}"#, #"{"type":"req","id":"","method":"m"}"#,
      #"{"type":"req","id":"x"}"#,
      #"{"type":"res","id":"x"}"#, #"{"type":"event"}"#, #"{"type":"cancel","id":"x"}"#, "{",
    ])
  func noFrame(text: String) { #expect(throws: FrameError.self) { try Frame(decoding: Array(text.utf8)) } }

  @Test("an error object that lacks parts is still understood")
  func lenientErrors() throws {
    guard case .response(let response) = try Frame(decoding: Array(#"{"type":"res","id":"x","ok":false}"#.utf8)),
      case .failure(let error) = response.result
    else { return #expect(Bool(false)) }
    #expect(error.code == "UNAVAILABLE")
  }

  @Test("an invoke is read in each form gateways send it; one without id, node or command is ignored")
  func invokes() throws {
    let object: JSON = [
      "id": "i", "nodeId": "n", "command": " device.info ", "paramsJSON": "{\"a\":1}", "timeoutMs": 1500.2,
      "idempotencyKey": "k",
    ]
    let request = try #require(InvokeRequest(payload: object))
    #expect(request.command == "device.info")
    #expect(request.paramsText == Array("{\"a\":1}".utf8))
    #expect(request.timeoutMs == 1501)
    #expect(request.idempotencyKey == "k")
    #expect(InvokeRequest(payload: .string(object.text)) == request)
    #expect(
      InvokeRequest(payload: ["id": "i", "nodeId": "n", "command": "c", "params": ["b": 2]])?.paramsText
        == Array("{\"b\":2}".utf8))
    #expect(InvokeRequest(payload: ["id": "i", "nodeId": "n", "command": "c", "timeoutMs": -5])?.timeoutMs == 0)
    #expect(InvokeRequest(payload: ["id": "i", "nodeId": "n", "command": "\u{7F}\u{7F}"]) == nil)
    #expect(
      InvokeRequest(payload: ["id": "i", "nodeId": "n", "command": "c", "timeoutMs": 1e300])?.timeoutMs == 2_147_483_647
    )
    for missing in ["id", "nodeId", "command"] {
      var members = object.object!
      members[missing] = " "
      #expect(InvokeRequest(payload: .object(members)) == nil)
    }
    #expect(InvokeRequest(payload: nil) == nil)
  }

  @Test("what an invoke names is short and harmless, whatever was sent")
  func hostileNames() throws {
    let plain: [String: JSON] = ["id": "i", "nodeId": "n", "command": "c"]
    let long = JSON.string("a" + String(repeating: "\u{301}", count: 100_000))
    for key in ["id", "nodeId", "idempotencyKey", "sessionKey"] {
      #expect(InvokeRequest(payload: .object(plain.merging([key: long]) { $1 })) == nil, "\(key)")
    }
    let request = try #require(InvokeRequest(payload: .object(plain.merging(["command": long]) { $1 })))
    #expect(request.command.utf8.count <= 520)
    let escape: JSON = "x\u{1B}[31m\u{9B}1A\r\ny"
    let named = try #require(InvokeRequest(payload: .object(plain.merging(["command": escape]) { $1 })))
    #expect(named.command == "x [31m 1A y")
  }

  @Test("a result frame carries its payload as JSON text, without escaping slashes, and reads back")
  func results() throws {
    let invoke = InvokeRequest(id: "i\"1", nodeID: "n", command: "c")
    let payload = Array(#"{"base64":"a/b+\"\\é"}"#.utf8)
    guard
      case .request(let request) = try Frame(
        decoding: InvokeOutcome.success(payload).resultFrame(requestID: "r", invoke: invoke), closed: true)
    else { return #expect(Bool(false)) }
    #expect(request.method == "node.invoke.result")
    #expect(request.params?["id"] == "i\"1")
    #expect(request.params?["ok"] == true)
    #expect(request.params?["payloadJSON"]?.string == String(decoding: payload, as: UTF8.self))
    let frame = InvokeOutcome.success([0x2F]).resultFrame(requestID: "r", invoke: invoke)
    #expect(String(decoding: frame, as: UTF8.self).contains(#""payloadJSON":"/""#))
    guard
      case .request(let failed) = try Frame(
        decoding: InvokeOutcome.failure(["code": "X"]).resultFrame(requestID: "r", invoke: invoke))
    else { return #expect(Bool(false)) }
    #expect(failed.params?["error"] == ["code": "X"])
    #expect(failed.params?["ok"] == false)
    guard
      case .request(let empty) = try Frame(
        decoding: InvokeOutcome.success(nil).resultFrame(requestID: "r", invoke: invoke))
    else { return #expect(Bool(false)) }
    #expect(empty.params?.object?["payloadJSON"] == nil)
  }
}

@Suite("The string a device signs")
struct DeviceAuthTests {
  private let vectorA = DeviceAuth(
    deviceID: "56475aa75463474c0285df5dbf2bcab73da651358839e9b77481b2eab107708c", clientID: "openclaw-ios",
    clientMode: "node", role: "node", scopes: [], signedAtMs: 1_767_225_600_000, token: "example-token",
    nonce: "11111111-2222-4333-8444-555555555555", platform: " Linux ", deviceFamily: "Linux")

  @Test("version 3 ends in platform and family, trimmed and in small ASCII letters; version 2 has neither")
  func payloads() {
    let common =
      "|56475aa75463474c0285df5dbf2bcab73da651358839e9b77481b2eab107708c|openclaw-ios|node|node||1767225600000|example-token|11111111-2222-4333-8444-555555555555"
    #expect(vectorA.payload(.v3) == "v3" + common + "|linux|linux")
    #expect(vectorA.payload(.v2) == "v2" + common)
  }

  @Test("scopes are joined as they were sent, and nothing but ASCII letters is made small")
  func normalisation() {
    var auth = vectorA
    auth.scopes = ["operator.write", "operator.read"]
    auth.platform = "\tİOS 26 \n"
    auth.deviceFamily = ""
    #expect(auth.payload(.v3).contains("|operator.write,operator.read|"))
    #expect(auth.payload(.v3).hasSuffix("|İos 26|"))
  }
}
