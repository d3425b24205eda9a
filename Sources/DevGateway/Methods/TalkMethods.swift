import Crypto
import GatewayProtocol
import System

/// `talk.*` and `tts.speak` (talk-and-chat §3, §4): what there is, transcription, and a voice.
extension Method {
  static let talks = [
    Method("talk.catalog", .operator, Scope.read) { gateway, call throws(WireError) in
      _ = try call.closed()
      return .payload(gateway.talkCatalog)
    },
    Method("talk.config", .operator, Scope.read) { gateway, call throws(WireError) in
      let params = try call.closed("includeSecrets")
      let wantsSecrets = try call.reading { () throws(SchemaError) in try params.optionalFlag("includeSecrets") }
      if wantsSecrets == true { try Scope.demand([Scope.talkSecrets], of: call.seat.scopes) }
      return .payload(gateway.talkConfig)
    },
    Method("talk.mode", .operator, Scope.write) { gateway, call throws(WireError) in
      let params = try call.closed("enabled", "phase")
      let (enabled, phase) = try call.reading { () throws(SchemaError) in
        (try params.required("enabled"), try params.optionalAnyText("phase"))
      }
      guard enabled.bool != nil else { throw Call.invalid(call.method, "at /enabled: must be boolean") }
      let mode: JSON = [
        "enabled": enabled, "phase": phase.map(JSON.string) ?? .null, "ts": .int(WallClock.milliseconds()),
      ]
      gateway.broadcast("talk.mode", mode, droppable: true)
      return .payload(mode)
    },
    Method("talk.session.create", .operator, Scope.write) { gateway, call throws(WireError) in
      .payload(try gateway.createTalkSession(call))
    },
    Method("talk.session.appendAudio", .operator, Scope.write) { gateway, call throws(WireError) in
      let params = try call.closed("sessionId", "audioBase64", "timestamp")
      let (id, text) = try call.reading { () throws(SchemaError) in
        _ = try params.optionalWhole("timestamp")
        return (try params.text("sessionId"), try params.text("audioBase64"))
      }
      try gateway.append(text, to: id, of: call.connection)
      return .payload(["ok": true])
    },
    Method("talk.session.close", .operator, Scope.write) { gateway, call throws(WireError) in
      let params = try call.closed("sessionId")
      let id = try call.reading { () throws(SchemaError) in try params.text("sessionId") }
      let session = try gateway.transcription(id, of: call.connection)
      // The answer goes out before the events of the end.
      call.connection.answer(call.id, .success(["ok": true]))
      gateway.close(session)
      return .later
    },
    Method("talk.speak", .operator, Scope.write) { gateway, call throws(WireError) in
      try gateway.talkSpeak(call)
      return .later
    },
    Method("tts.speak", .operator, Scope.write) { gateway, call throws(WireError) in
      try gateway.ttsSpeak(call)
      return .later
    },
  ]
}

extension DevGateway {
  /// Longer texts are refused by `tts.speak`.
  static let mostSpoken = 4096
  /// Voices that speak at once.
  static let mostVoices = 8

  var talkCatalog: JSON {
    func group(_ provider: String?, _ more: [String: JSON] = [:]) -> JSON {
      var members: [String: JSON] = ["ready": .bool(provider != nil), "providers": []]
      if let provider {
        members["activeProvider"] = .string(provider)
        let entry: [String: JSON] = ["id": .string(provider), "label": .string(provider), "configured": true]
        members["providers"] = [.object(entry.merging(more) { $1 })]
      }
      return .object(members)
    }
    let format: JSON = [
      "encoding": .string(TranscriptionSession.encoding), "sampleRateHz": .int(TranscriptionSession.rate),
      "channels": 1,
    ]
    return [
      "modes": ["transcription", "stt-tts"], "transports": ["gateway-relay"], "brains": ["none"],
      "speech": group(talk.voice.map { $0.command.name }),
      "transcription": group(
        TranscriptionSession.provider(of: talk),
        ["modes": ["transcription"], "transports": ["gateway-relay"], "inputAudioFormats": [format]]),
      "realtime": group(nil),
    ]
  }

  var talkConfig: JSON {
    var section: [String: JSON] = ["interruptOnSpeech": .bool(talk.interruptsOnSpeech)]
    if let silence = talk.silenceTimeoutMs { section["silenceTimeoutMs"] = .int(silence) }
    if let voice = talk.voice {
      section["resolved"] = ["provider": .string(voice.command.name), "config": [:]]
    }
    return ["config": ["talk": .object(section), "session": ["mainKey": "main"]]]
  }

  func createTalkSession(_ call: Call) throws(WireError) -> JSON {
    let params = try call.closed(
      "mode", "transport", "brain", "provider", "model", "sessionKey", "voice", "language", "vadThreshold",
      "silenceDurationMs", "prefixPaddingMs", "reasoningEffort", "ttlMs")
    let (mode, transport, brain, provider) = try call.reading { () throws(SchemaError) in
      (
        try params.optionalText("mode"), try params.optionalText("transport"), try params.optionalText("brain"),
        try params.optionalText("provider")
      )
    }
    guard mode == "transcription" else {
      throw WireError(code: "UNAVAILABLE", message: "No realtime voice provider registered")
    }
    guard transport ?? "gateway-relay" == "gateway-relay", brain ?? "none" == "none" else {
      throw .invalid("mode \"transcription\" requires transport \"gateway-relay\" and brain \"none\"")
    }
    return try createTranscription(for: call.connection, provider: provider)
  }

  // MARK: The voice

  func talkSpeak(_ call: Call) throws(WireError) {
    let params = try call.closed(
      "text", "voiceId", "modelId", "outputFormat", "speed", "rateWpm", "stability", "similarity", "style",
      "speakerBoost", "seed", "normalize", "language", "latencyTier")
    let (text, rate) = try call.reading { () throws(SchemaError) in
      (try params.anyText("text").trimmed, try params.optionalWhole("rateWpm", in: 1...Int64.max))
    }
    if text.isEmpty { throw .invalid("talk.speak requires text") }
    // Words a minute over 175 are the speed (talk-and-chat §1.5).
    if let rate, !(0.5...2).contains(Double(rate) / 175) { throw .invalid("rateWpm is out of range") }
    guard let voice = talk.voice else {
      throw WireError(
        code: "UNAVAILABLE", message: "talk provider not configured",
        details: ["reason": "talk_unconfigured", "fallbackEligible": true])
    }
    try speak(text, by: voice, for: call, failing: ["reason": "synthesis_failed", "fallbackEligible": false])
  }

  func ttsSpeak(_ call: Call) throws(WireError) {
    let params = try call.closed("text")
    let text = try call.reading { () throws(SchemaError) in try params.anyText("text").trimmed }
    if text.isEmpty { throw .invalid("tts.speak requires text") }
    if text.count > Self.mostSpoken {
      throw .invalid("tts.speak text too long (\(text.count) chars, max \(Self.mostSpoken))")
    }
    guard let voice = talk.voice else { throw WireError(code: "UNAVAILABLE", message: "TTS is not configured") }
    try speak(text, by: voice, for: call, failing: nil)
  }

  private func speak(_ text: String, by voice: TalkOffer.Voice, for call: Call, failing details: JSON?)
    throws(WireError)
  {
    if voicesAtWork >= Self.mostVoices { throw WireError(code: "UNAVAILABLE", message: "too many voices at once") }
    voicesAtWork += 1
    spokenTexts.append(text)
    if spokenTexts.count > 100 { spokenTexts.removeFirst() }
    Task {
      let sound = await sound(of: text, by: voice)
      voicesAtWork -= 1
      guard let sound else {
        let error = WireError(code: "UNAVAILABLE", message: "speech synthesis failed", details: details)
        return call.connection.answer(call.id, .failure(error))
      }
      call.connection.answer(
        call.id,
        .success(
          .object(present: [
            "audioBase64": .string(Base64.encode(sound)), "provider": .string(voice.command.name),
            "outputFormat": voice.outputFormat.map(JSON.string), "mimeType": voice.mimeType.map(JSON.string),
            "fileExtension": voice.fileExtension.map(JSON.string),
          ])))
    }
  }

  /// What the voice's program gives for a text; nil when it fails or gives nothing.
  private func sound(of text: String, by voice: TalkOffer.Voice) async -> [UInt8]? {
    let run = try? await Subprocess.run(
      voice.command, input: Array(text.utf8), outputLimit: 16 << 20, deadline: .seconds(60), loop: loop)
    guard let run, run.exit.isSuccess, !run.isTruncated, !run.output.isEmpty else { return nil }
    return run.output
  }
}

extension Subprocess.Command {
  /// The program's name without its folder.
  fileprivate var name: String { String(program.split(separator: "/").last ?? "voice") }
}
