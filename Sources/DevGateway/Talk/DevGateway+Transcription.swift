import Crypto
import GatewayProtocol
import System

/// The relay between those who append sound and the recogniser's process (talk-and-chat §3.5).
extension DevGateway {
  func createTranscription(for connection: Connection, provider: String?) throws(WireError) -> JSON {
    guard let name = TranscriptionSession.provider(of: talk) else {
      throw Self.noTranscription("No realtime transcription provider registered")
    }
    if let provider, provider != name {
      throw Self.noTranscription("Realtime transcription provider \"\(provider)\" is not configured")
    }
    let tooMany = "Too many active transcription Talk sessions"
    let own = transcriptions.values.filter { $0.connection === connection }.count
    if own >= TranscriptionSession.mostOfOneConnection {
      throw WireError(code: "UNAVAILABLE", message: tooMany + " for this connection")
    }
    if transcriptions.count >= TranscriptionSession.mostOfAll { throw WireError(code: "UNAVAILABLE", message: tooMany) }
    let session = TranscriptionSession(of: connection, offer: talk)
    transcriptions[session.id] = session
    session.lifeTimer = timer(session.offer.sessionLife, session.id, error: "the Talk session has expired")
    Task { await serve(session) }
    return [
      "sessionId": .string(session.id), "transcriptionSessionId": .string(session.id), "provider": .string(name),
      "mode": "transcription", "transport": "gateway-relay", "brain": "none", "ready": false,
      "audio": [
        "inputEncoding": .string(TranscriptionSession.encoding), "inputSampleRateHz": .int(TranscriptionSession.rate),
      ],
      "expiresAt": .int(session.expiresAtMs / 1000),
    ]
  }

  private static func noTranscription(_ message: String) -> WireError {
    WireError(
      code: "UNAVAILABLE", message: message,
      details: [
        "talkIssue": ["code": "realtime_unavailable", "message": .string(message), "phase": "request"]
      ])
  }

  func transcription(_ id: String, of connection: Connection) throws(WireError) -> TranscriptionSession {
    guard let session = transcriptions[id], session.connection === connection, session.phase != .flushing else {
      throw .invalid("Unknown transcription Talk session")
    }
    return session
  }

  func append(_ text: String, to id: String, of connection: Connection) throws(WireError) {
    let session = try transcription(id, of: connection)
    if text.utf8.count > TranscriptionSession.mostText {
      throw .invalid("Transcription Talk audio frame is too large")
    }
    guard let bytes = Base64.decode(text) else { throw .invalid("audioBase64 is not base64") }
    if session.waiting.count + bytes.count > TranscriptionSession.mostWaiting {
      throw WireError(code: "UNAVAILABLE", message: "the recogniser takes the sound too slowly")
    }
    if !bytes.isEmpty { session.hasSound = true }
    session.waiting += bytes
    session.tellSound(bytes.count)
    pump(session)
  }

  /// The client has said all: without sound it is over at once, else the recogniser has some time for its last words.
  func close(_ session: TranscriptionSession) {
    if !session.hasSound { return end(session) }
    session.phase = .flushing
    pump(session)
    session.flushTimer = timer(session.offer.flushLimit, session.id, error: nil)
  }

  /// A session dies with the socket it was made on.
  func endTranscriptions(of connection: Connection? = nil) {
    for session in transcriptions.values where connection == nil || session.connection === connection { end(session) }
  }

  /// How many sessions there are, for tests that look for one left behind.
  public var openTranscriptions: Int { transcriptions.count }

  private func timer(_ delay: Duration, _ id: String, error: String?) -> EventLoop.Token {
    loop.after(delay) { [weak self] in
      self?.assumeIsolated { gateway in
        if let session = gateway.transcriptions[id] { gateway.end(session, error: error) }
      }
    }
  }

  private func end(_ session: TranscriptionSession, error: String? = nil) {
    if session.phase == .ended { return }
    session.phase = .ended
    transcriptions[session.id] = nil
    for timer in [session.lifeTimer, session.flushTimer] { if let timer { loop.cancel(timer) } }
    if let error { session.tellError(error) }
    session.tellClose(error == nil ? "completed" : "error")
    if let process = session.process { Task { await process.end(grace: .milliseconds(200)) } }
  }

  // MARK: The recogniser

  private func serve(_ session: TranscriptionSession) async {
    guard let command = session.offer.recogniser else { return }
    do throws(SystemError) {
      let process = try await Subprocess.start(command, loop: loop)
      session.process = process
      // It may have been closed while this one started.
      if session.phase == .ended {
        await process.end(grace: .milliseconds(200))
        return
      }
      pump(session)
      while let line = try await process.readLine(limit: 64 << 10) { hear(line, session) }
      let exit = await process.waitForExit()
      end(session, error: session.phase == .flushing ? nil : "the recogniser ended (\(exit.inWords))")
    } catch {
      end(session, error: "\(error)")
    }
  }

  private func hear(_ line: [UInt8], _ session: TranscriptionSession) {
    guard session.phase != .ended, let message = try? JSON(parsing: line) else { return }
    let text = message["text"]?.string ?? ""
    switch message["type"]?.string {
    case "ready":
      if session.phase == .starting { session.phase = .open }
      session.tellReady()
    case "speechStart": session.tellSpeech()
    case "partial": session.tellPartial(text)
    case "final": session.tellFinal(text)
    case "error": end(session, error: message["message"]?.string ?? "the recogniser failed")
    default: break
    }
  }

  /// Writes what waits; ends the recogniser's input when all is written and the client has closed.
  private func pump(_ session: TranscriptionSession) {
    guard let process = session.process, !session.isWriting, session.phase != .ended else { return }
    if session.waiting.isEmpty {
      if session.phase == .flushing { Task { await process.closeInput() } }
      return
    }
    session.isWriting = true
    let bytes = session.waiting
    session.waiting = []
    Task {
      // One that has ended is noticed where its output is read.
      try? await process.write(bytes)
      session.isWriting = false
      pump(session)
    }
  }
}
