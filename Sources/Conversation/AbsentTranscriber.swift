import Speech

/// Stands where a transcriber was chosen that can't be had now, so that the reason is told when somebody speaks.
struct AbsentTranscriber: Transcriber {
  let name: String
  let hasPartials = false
  let reason: String
  let remedy: String?

  func availability() async -> SpeechAvailability { .absent(reason: reason, remedy: remedy) }

  func begin(_ request: TranscriptionRequest) async throws(SpeechError) -> any Transcription {
    throw SpeechError(.missing, reason, remedy: remedy)
  }
}
