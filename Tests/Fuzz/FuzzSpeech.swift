// covers, as speech: Sources/Speech/HelperProtocol.swift Sources/Speech/TranscriptText.swift Sources/Speech/VoiceDirective.swift Sources/Speech/SpokenText.swift Sources/Speech/SpokenBlocks.swift Sources/Speech/SpokenInline.swift Sources/Speech/SpokenLine.swift Sources/Speech/HTMLTag.swift
import Speech

/// What a transcriber's helper or command prints, and what an agent writes to be spoken. However it lies, texts stay within their limits,
/// a transcript is one line, and a directive says nothing out of range.
@Sendable func fuzzSpeech(_ bytes: UnsafeRawBufferPointer) {
  for line in bytes.split(separator: 0x0A).prefix(100) {
    switch HelperMessage(line: line) {
    case .partial(_, let text), .endpoint(_, let text), .final(_, let text): check(transcript: text)
    case .error(_, let reason): precondition(reason.count <= 200)
    case .ready, nil: break
    }
  }
  check(transcript: TranscriptText.of(output: Array(bytes)))
  let reply = String(decoding: bytes, as: UTF8.self)
  let (directive, text) = VoiceDirective.parse(reply)
  precondition(reply.utf8.count >= text.utf8.count && (directive != nil || text == reply))
  if let directive {
    precondition(directive.effectiveSpeed.map { (0.5...2).contains($0) } ?? true)
    precondition(directive.stability.map { (0...1).contains($0) } ?? true)
  }
  for language in ["en", "de"] {
    let spoken = SpokenText(language: language, limit: 1000).text(of: text)
    // A line, and the words that say that there is more.
    precondition(spoken.count <= 1000 + 1000 + 200, "\(spoken.count) characters are spoken")
  }
}

private func check(transcript text: String) {
  precondition(text.count <= TranscriptText.limit)
  precondition(!text.contains { $0.isNewline })
}
