import Camera
import Crypto
import GatewayProtocol
import NodeKit
import System
import TestSupport
import Testing

@testable import CameraModule

/// What agents ask of cameras and what they get, down to the JSON.
@Suite struct CameraModuleTests {
  private static let samples =
    String(#filePath).split(separator: "/").dropLast(3).reduce("") { $0 + "/" + $1 } + "/samples/camera"

  /// A camera that plays a sample, and the module over it.
  private struct Bed {
    let loop = EventLoop(name: "module")
    let cameras: Cameras
    let module: CameraModule

    init(_ samples: String..., writer: @escaping @Sendable () throws(CameraError) -> any ClipWriter = { FixedClip() }) {
      var settings = Camera.CameraSettings()
      settings.sources = samples.map {
        .init(
          name: String($0.prefix { $0 != "." }), kind: .recording(path: CameraModuleTests.samples + "/" + $0, rate: 60))
      }
      cameras = Cameras(settings: settings, loop: loop, places: CameraPlaces(dev: "/nonexistent"))
      module = CameraModule(cameras: cameras, sound: nil, clipWriter: writer)
    }

    func ask(
      _ command: String, _ params: String? = nil, limit: Duration = .seconds(30), payloadLimit: Int = 25 << 20
    ) async -> Result<JSON, CommandError> {
      let invocation = Invocation(
        id: "i", command: command, paramsText: params.map { Array($0.utf8) }, origin: .gateway("g"),
        deadline: Monotonic.now() + limit, payloadLimit: payloadLimit)
      do throws(CommandError) {
        let text = try await module.handle(invocation).text ?? []
        // The answer must itself be JSON, and hold no `\/`, which would make base64 longer.
        #expect(!String(decoding: text, as: UTF8.self).contains(#"\/"#))
        return .success(try! JSON(parsing: text))
      } catch {
        return .failure(error)
      }
    }

    func refusal(_ command: String, _ params: String?, limit: Duration = .seconds(30)) async -> CommandError? {
      if case .failure(let error) = await ask(command, params, limit: limit) { error } else { nil }
    }

    func end() async {
      await module.stop()
      loop.stop()
    }
  }

  /// A writer whose clip is always the same bytes.
  private actor FixedClip: ClipWriter {
    func begin(_ format: ClipFormat) async throws(CameraError) {}
    func write(frame: Camera.Frame) async throws(CameraError) {}
    func write(sound: [Int16], atNs: UInt64) async throws(CameraError) {}
    func finish() async throws(CameraError) -> [UInt8] { [1, 2, 3] }
    func cancel() async {}
  }

  @Test("the list has id, name, an unknown position and what kind of device it is; none is an empty list")
  func list() async throws {
    let bed = Bed("room.mjpeg", "whole.jpg")
    let answer = try await bed.ask("camera.list").get()
    let devices = try #require(answer["devices"]?.array)
    #expect(devices.map { $0["id"]?.string } == ["room", "whole"])
    #expect(devices.allSatisfy { $0["position"]?.string == "unknown" && $0["deviceType"]?.string == "recording" })
    let node = CameraDevice(id: "/dev/video0", name: "Cam", origin: .v4l2(node: "/dev/video0", driver: "uvcvideo"))
    #expect(CameraModule.json([node])["devices"]?.array?.first?["deviceType"]?.string == "v4l2")
    await bed.end()
    let empty = Bed()
    #expect(try await empty.ask("camera.list").get()["devices"]?.array == [])
    #expect(await empty.refusal("camera.snap", nil)?.code == "CAMERA_UNAVAILABLE")
    await empty.end()
  }

  @Test("a picture has format, base64, width and height; the size is that of the JPEG")
  func snap() async throws {
    let bed = Bed("room.mjpeg")
    let whole = try await bed.ask("camera.snap", #"{"facing":"front","delayMs":0}"#).get()
    #expect(whole["format"]?.string == "jpg" && whole["width"]?.int == 640 && whole["height"]?.int == 360)
    let bytes = try #require(whole["base64"]?.string.flatMap { Base64.decode($0) })
    #expect(bytes.prefix(2) == [0xFF, 0xD8] && bytes.suffix(2) == [0xFF, 0xD9])
    let small = try await bed.ask(
      "camera.snap", #"{"format":"jpeg","maxWidth":200.9,"quality":7,"deviceId":"room","delayMs":0}"#
    ).get()
    #expect(small["format"]?.string == "jpeg" && small["width"]?.int == 200 && small["height"]?.int == 112)
    await bed.end()
  }

  @Test("bounds are clamped and wrong types count as absent, but for the format and the id")
  func params() throws {
    func params(_ text: String) throws(CommandError) -> SnapParams {
      try SnapParams(try! JSON(parsing: Array(text.utf8)))
    }
    #expect(try params("{}") == SnapParams([:]))
    #expect(try params("{}").width == 1600 && params("{}").quality == 0.9 && params("{}").delay == nil)
    #expect(try params(#"{"maxWidth":0}"#).width == 1600)
    #expect(try params(#"{"maxWidth":-5}"#).width == 1600)
    #expect(try params(#"{"maxWidth":1}"#).width == 2)
    #expect(try params(#"{"maxWidth":1e9}"#).width == 16_384)
    #expect(try params(#"{"maxWidth":"200"}"#).width == 1600)
    #expect(try params(#"{"quality":0}"#).quality == 0.05)
    #expect(try params(#"{"quality":95}"#).quality == 1)
    #expect(try params(#"{"delayMs":-1}"#).delay == .zero)
    #expect(try params(#"{"delayMs":20000}"#).delay == .seconds(10))
    #expect(try params(#"{"deviceId":" "}"#).deviceID == nil)
    #expect(throws: CommandError.self) { try params(#"{"format":"png"}"#) }
    #expect(throws: CommandError.self) { try params(#"{"deviceId":7}"#) }
    func clip(_ text: String) throws(CommandError) -> ClipParams {
      try ClipParams(try! JSON(parsing: Array(text.utf8)))
    }
    #expect(try clip("{}").milliseconds == 3000 && clip("{}").includesAudio)
    #expect(try clip(#"{"durationMs":1}"#).milliseconds == 250)
    #expect(try clip(#"{"durationMs":300000}"#).milliseconds == 60_000)
    #expect(throws: CommandError.self) { try clip(#"{"format":"webm"}"#) }
  }

  @Test("a camera that is not known is refused, not replaced by another; malformed params mean the defaults")
  func unknown() async throws {
    let bed = Bed("room.mjpeg")
    #expect(await bed.refusal("camera.snap", #"{"deviceId":"/dev/video9"}"#)?.code == "INVALID_REQUEST")
    #expect(await bed.refusal("camera.snap", #"{"format":"png"}"#)?.code == "INVALID_REQUEST")
    #expect(await bed.refusal("camera.clip", #"{"format":"gif"}"#)?.code == "INVALID_REQUEST")
    #expect(try await bed.ask("camera.snap", "nonsense").get()["width"]?.int == 640)
    await bed.end()
  }

  @Test("a picture fits the caller's link, not only the limit for pictures")
  func fits() async throws {
    let bed = Bed("room.mjpeg")
    let answer = try await bed.ask("camera.snap", #"{"delayMs":0}"#, payloadLimit: 65_536 + 6000).get()
    #expect((answer["base64"]?.string?.utf8.count ?? .max) <= 6000)
    #expect((answer["width"]?.int ?? 640) <= 640)
    await bed.end()
  }

  @Test("a clip without a microphone is silent and says so; its length is the one asked for, clamped")
  func clip() async throws {
    let bed = Bed("room.mjpeg")
    let answer = try await bed.ask("camera.clip", #"{"durationMs":1}"#).get()
    #expect(answer["format"]?.string == "mp4" && answer["durationMs"]?.int == 250)
    #expect(answer["base64"]?.string == Base64.encode([1, 2, 3]))
    #expect(answer["hasAudio"]?.bool == false && answer["note"]?.string?.hasPrefix("The clip is silent:") == true)
    let silent = try await bed.ask("camera.clip", #"{"durationMs":250,"includeAudio":false}"#).get()
    #expect(silent["hasAudio"]?.bool == false && silent["note"] == nil)
    await bed.end()
  }

  @Test("a clip longer than the caller waits is refused at once")
  func tooLong() async {
    let bed = Bed("room.mjpeg")
    let error = await bed.refusal("camera.clip", #"{"durationMs":20000}"#, limit: .seconds(15))
    #expect(error?.code == "INVALID_REQUEST" && error?.summary.contains("timeoutMs") == true)
    await bed.end()
  }

  @Test("without an encoder a clip is an error with the reason")
  func noEncoder() async {
    let bed = Bed("room.mjpeg", writer: { () throws(CameraError) in throw CameraError(.missing, "No encoder.") })
    let error = await bed.refusal("camera.clip", #"{"includeAudio":false}"#)
    #expect(error == CommandError("CAMERA_UNAVAILABLE", "No encoder."))
    await bed.end()
  }

  @Test("turning needs an id, an operation and numbers, and a camera that can be turned")
  func ptz() async throws {
    let bed = Bed("room.mjpeg")
    for params in [
      nil, "{}", #"{"deviceId":"room"}"#, #"{"deviceId":"room","operation":"spin"}"#,
      #"{"deviceId":"room","operation":"set"}"#, #"{"deviceId":"room","operation":"move","delta":{}}"#,
      #"{"deviceId":"room","operation":"move","delta":{"panDegrees":"1"}}"#,
    ] as [String?] {
      #expect(await bed.refusal("camera.ptz.control", params)?.code == "INVALID_REQUEST", "\(params ?? "none")")
    }
    #expect(await bed.refusal("camera.ptz.status", "{}")?.code == "INVALID_REQUEST")
    #expect(await bed.refusal("camera.ptz.status", #"{"deviceId":"room"}"#)?.code == "CAMERA_PTZ_UNSUPPORTED")
    let home = #"{"deviceId":"room","operation":"home"}"#
    #expect(await bed.refusal("camera.ptz.control", home)?.code == "CAMERA_PTZ_UNSUPPORTED")
    await bed.end()
    let params = try PTZParams(
      try JSON(parsing: Array(#"{"deviceId":"a","operation":"set","target":{"panDegrees":1.5,"zoomPercent":50}}"#.utf8))
    )
    #expect(params.command == .set([.pan: 1.5, .zoom: 50]))
  }

  @Test("a state tells only axes that are there, with unit, range and what can be done")
  func state() {
    let state = PTZState(
      axes: [
        .init(
          axis: .pan, current: 1.00049, minimum: -10, maximum: 10, step: 1, standard: 0, canSet: true, canMove: true),
        .init(
          axis: .zoom, current: 0, minimum: -100, maximum: 100, step: 1, standard: nil, canSet: false, canMove: true),
      ], canHome: true)
    let json = PTZParams.json(state, adjusted: [.zoom, .pan])
    #expect(json["adjusted"]?.strings == ["zoomPercent", "panDegrees"])
    let axes = json["state"]?["axes"]?.object ?? [:]
    let (pan, zoom) = (axes["pan"] ?? [:], axes["zoom"] ?? [:])
    #expect(pan["current"]?.double == 1)
    #expect(pan["unit"]?.string == "degrees")
    #expect(pan["default"]?.double == 0)
    #expect(zoom["canSet"]?.bool == false)
    #expect(zoom["unit"]?.string == "percent")
    #expect(zoom["default"] == nil)
    #expect(axes["tilt"] == nil)
    #expect(json["state"]?["canHome"]?.bool == true)
  }

  @Test("each kind of trouble has the symbol that consumers look for")
  func symbols() {
    let expected: KeyValuePairs<CameraError.Code, String> = [
      .unknownCamera: "INVALID_REQUEST", .preferenceAbsent: "CAMERA_UNAVAILABLE", .noCamera: "CAMERA_UNAVAILABLE",
      .unplugged: "CAMERA_UNAVAILABLE",
      .stuck: "CAMERA_UNAVAILABLE", .notPermitted: "CAMERA_PERMISSION_REQUIRED", .busy: "CAMERA_BUSY",
      .tooLarge: "PAYLOAD_TOO_LARGE", .microphoneBusy: "MIC_BUSY", .microphoneNotPermitted: "MIC_PERMISSION_REQUIRED",
      .ptzPartial: "CAMERA_PTZ_PARTIAL", .ptzAxisUnsupported: "CAMERA_PTZ_AXIS_UNSUPPORTED",
    ]
    for (code, symbol) in expected {
      let error = CameraModule.failure(CameraError(code, "Because.", remedy: "Do."))
      #expect(error == CommandError(symbol, "Because.", remedy: "Do."))
    }
  }

  @Test("it is off until a person switches it on, shown when it is used, and needs the gateway's list")
  func gates() {
    let bed = Bed()
    #expect(!CameraModule.consent.isOnByDefault && CameraModule.consent.refusalCode == "CAMERA_DISABLED")
    let shown = Dictionary(uniqueKeysWithValues: bed.module.commands.map { ($0.name, $0.isShown) })
    #expect(
      shown == [
        "camera.list": false, "camera.snap": true, "camera.clip": true, "camera.ptz.status": false,
        "camera.ptz.control": true,
      ])
    #expect(bed.module.commands.allSatisfy { $0.gatewayDefault != .allowed && $0.consent == CameraModule.consent })
    bed.loop.stop()
  }
}
