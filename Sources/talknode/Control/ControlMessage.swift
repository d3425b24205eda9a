import GatewayProtocol

/// The control protocol: JSON lines over the control socket. The client writes a request a line; the daemon answers each with one
/// line, after any number of event lines for `follow`.
///
///     {"v":1,"op":"invoke","command":"device.info","params":{}}
///     {"v":1,"ok":true,"result":{…}}
///     {"v":1,"ok":false,"error":{"code":"NO_GATEWAY","summary":"…","cause":"…","remedy":"…","exit":69}}
///     {"v":1,"event":{…}}
enum ControlProtocol {
  /// Raised when a client of one version would misread a daemon of another.
  static let version: Int64 = 1
  /// The longest params of an invoke, in bytes.
  static let paramsLimit = 1 << 20
  /// The longest request: an invoke with its params.
  static let requestLimit = paramsLimit + 4096
  /// The longest answer: the largest payload of an invoke, and a little.
  static let answerLimit = 27 << 20
  /// Clients at once; one more is told to come back.
  static let connectionLimit = 32
}

enum ControlRequest: Sendable, Equatable {
  case status
  /// The status now, and again at each change until the client hangs up.
  case follow
  case invoke(command: String, params: JSON?, timeoutMs: Int64?)
  /// Connect to this gateway, which is in the registry.
  case use(gateway: String)
  case forget(gateway: String)
  case turn(capability: String, on: Bool)
  /// What each module could do now.
  case availability
  /// Push-to-talk, and what is spoken.
  case talk(TalkRequest)
  /// What goes on while a person talks, until the client hangs up.
  case watchTalk
}

extension ControlRequest {
  init(json: JSON) throws(Failure) {
    guard json["v"]?.int == ControlProtocol.version else {
      throw Failure(
        "CONTROL_VERSION", "The running talknode is of another version than this one.",
        remedy: "systemctl --user restart talknode", exit: .protocolError)
    }
    func text(_ key: String) throws(Failure) -> String {
      guard let value = json[key]?.string else {
        throw Failure("CONTROL_REQUEST", "The request lacks \(key).", exit: .protocolError)
      }
      return value
    }
    switch json["op"]?.string {
    case "status": self = .status
    case "follow": self = .follow
    case "invoke":
      self = .invoke(command: try text("command"), params: json["params"], timeoutMs: json["timeoutMs"]?.int)
    case "use": self = .use(gateway: try text("gateway"))
    case "forget": self = .forget(gateway: try text("gateway"))
    case "turn":
      guard let on = json["on"]?.bool else {
        throw Failure("CONTROL_REQUEST", "The request lacks on.", exit: .protocolError)
      }
      self = .turn(capability: try text("capability"), on: on)
    case "availability": self = .availability
    case "talk": self = .talk(try TalkRequest(json: json))
    case "watch-talk": self = .watchTalk
    default: throw Failure("CONTROL_REQUEST", "The running talknode does not know this request.", exit: .protocolError)
    }
  }

  var json: JSON {
    func request(_ op: String, _ members: KeyValuePairs<String, JSON?> = [:]) -> JSON {
      var object = JSON.object(present: members).object ?? [:]
      if case .talk(let request) = self { object = request.members }
      object["v"] = .int(ControlProtocol.version)
      object["op"] = .string(op)
      return .object(object)
    }
    switch self {
    case .status: return request("status")
    case .follow: return request("follow")
    case .invoke(let command, let params, let timeoutMs):
      return request("invoke", ["command": .string(command), "params": params, "timeoutMs": timeoutMs.map(JSON.int)])
    case .use(let gateway): return request("use", ["gateway": .string(gateway)])
    case .forget(let gateway): return request("forget", ["gateway": .string(gateway)])
    case .turn(let capability, let on): return request("turn", ["capability": .string(capability), "on": .bool(on)])
    case .availability: return request("availability")
    case .talk: return request("talk")
    case .watchTalk: return request("watch-talk")
    }
  }
}

/// What the daemon answers.
enum ControlAnswer: Sendable {
  /// The result's JSON text: a payload of an invoke is not parsed on its way.
  case result([UInt8])
  case failure(Failure)
  case event(JSON)

  var line: [UInt8] {
    var out = Array("{\"v\":\(ControlProtocol.version),".utf8)
    switch self {
    case .result(let text):
      out.append(contentsOf: #""ok":true,"result":"#.utf8)
      // A raw line end can only be white space between JSON tokens, and would end the message.
      out.append(contentsOf: text.lazy.map { $0 == 0x0A || $0 == 0x0D ? 0x20 : $0 })
    case .failure(let failure):
      out.append(contentsOf: #""ok":false,"error":"#.utf8)
      failure.json.encode(into: &out)
    case .event(let json):
      out.append(contentsOf: #""event":"#.utf8)
      json.encode(into: &out)
    }
    out.append(UInt8(ascii: "}"))
    return out
  }

  init(line: [UInt8]) throws(Failure) {
    guard let json = try? JSON(parsing: line), json["v"]?.int == ControlProtocol.version else {
      throw Failure(
        "CONTROL_VERSION", "The running talknode is of another version than this one.",
        remedy: "systemctl --user restart talknode", exit: .protocolError)
    }
    if let event = json["event"] {
      self = .event(event)
    } else if json["ok"]?.bool == true {
      self = .result((json["result"] ?? .null).encoded())
    } else {
      self = .failure(Failure(json: json["error"]))
    }
  }
}

extension Failure {
  init(json: JSON?) {
    self.init(
      json?["code"]?.string ?? "UNKNOWN", json?["summary"]?.string ?? "The daemon gave no reason.",
      cause: json?["cause"]?.string, remedy: json?["remedy"]?.string,
      exit: ExitStatus(code: json?["exit"]?.int.flatMap { Int32(exactly: $0) } ?? 1))
  }

  /// Stable keys, also for `--json` output.
  var json: JSON {
    .object(present: [
      "code": .string(code), "summary": .string(summary), "cause": cause.map(JSON.string),
      "remedy": remedy.map(JSON.string), "exit": .int(Int64(exit.code)),
    ])
  }
}
