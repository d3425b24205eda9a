import CPocketsphinx
import Glibc

/// One decoder, used by one thread at a time. Loading takes a fraction of a second and 40 to 110 MB.
final class PocketsphinxDecoder {
  enum Search: Sendable, Equatable {
    case grammar(SpeechGrammar)
    case dictation
  }
  static let rate = 16_000

  private let functions: talknode_pocketsphinx
  private let decoder: OpaquePointer
  private var isOpen = false

  /// `relayed`: for sound that has been through a telephone codec, where the usual noise removal takes away what speech is told by.
  init(model: PocketsphinxModel, search: Search, relayed: Bool) throws(SpeechError) {
    let functions = try PocketsphinxLibrary.shared.get().functions
    guard let configuration = functions.cmd_ln_parse_r(nil, functions.ps_args(), 0, nil, 1) else {
      throw SpeechError(.failed, "pocketsphinx does not take its settings.")
    }
    defer { _ = functions.cmd_ln_free_r(configuration) }
    functions.cmd_ln_set_str_r(configuration, "-hmm", model.acoustic)
    functions.cmd_ln_set_str_r(configuration, "-dict", model.dictionary)
    functions.cmd_ln_set_str_r(configuration, "-logfn", "/dev/null")
    if relayed { functions.cmd_ln_set_int_r(configuration, "-remove_noise", 0) }
    if search == .dictation {
      guard let language = model.language else {
        throw SpeechError(.missing, "pocketsphinx has no language model.", remedy: "apt install pocketsphinx-en-us")
      }
      functions.cmd_ln_set_str_r(configuration, "-lm", language)
    }
    guard let decoder = functions.ps_init(configuration) else {
      throw SpeechError(
        .failed, "pocketsphinx could not load its model.", remedy: "apt install --reinstall pocketsphinx-en-us")
    }
    self.functions = functions
    self.decoder = decoder
    if case .grammar(let grammar) = search { try use(grammar) }
  }

  deinit { _ = functions.ps_free(decoder) }

  private func use(_ grammar: SpeechGrammar) throws(SpeechError) {
    let unknown = grammar.words.filter { word in
      guard let pronunciation = functions.ps_lookup_word(decoder, word) else { return true }
      free(pronunciation)
      return false
    }
    if !unknown.isEmpty {
      let list = unknown.prefix(5).map { "“\($0)”" }.joined(separator: ", ")
      throw SpeechError(
        .invalidSetting, "pocketsphinx does not know how \(list) is spoken.",
        remedy: "Write the word otherwise (numbers as words), or leave it out of the grammar.")
    }
    guard functions.ps_set_jsgf_string(decoder, "sentences", grammar.jsgf) == 0,
      functions.ps_set_search(decoder, "sentences") == 0
    else {
      throw SpeechError(
        .invalidSetting, "pocketsphinx can't read the grammar.",
        remedy: "A grammar looks like: #JSGF V1.0; grammar g; public <s> = turn on the light | stop;")
    }
  }

  /// Begins an utterance; one that is open is given up.
  func start() {
    if isOpen { _ = functions.ps_end_utt(decoder) }
    isOpen = functions.ps_start_utt(decoder) == 0
  }

  func process(_ samples: some Collection<Int16>) {
    if !isOpen { return }
    var samples = Array(samples)
    _ = samples.withUnsafeMutableBufferPointer {
      functions.ps_process_raw(decoder, $0.baseAddress, $0.count, 0, 0)
    }
  }

  /// What is understood so far.
  var hypothesis: String {
    var score: Int32 = 0
    return functions.ps_get_hyp(decoder, &score).map { String(cString: $0).trimmed } ?? ""
  }

  /// Whether somebody is speaking at the end of what was processed.
  var isInSpeech: Bool { isOpen && functions.ps_get_in_speech(decoder) != 0 }

  /// Ends the utterance: its text, empty when it was nothing that is listened for.
  func end() -> String {
    if !isOpen { return "" }
    isOpen = false
    _ = functions.ps_end_utt(decoder)
    return hypothesis
  }
}
