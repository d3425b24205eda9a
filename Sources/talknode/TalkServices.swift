import Audio
import Configuration
import Conversation
import GatewayClient
import Speech
import System
import Triggers

/// The link to the active gateway, for those who talk: the node puts it here, the conversation takes it.
final class ActiveLink: Sendable {
  private let link = Lock<GatewayLink?>(nil)
  var current: GatewayLink? {
    get { link.withLock { $0 } }
    set { link.withLock { $0 = newValue } }
  }
}

extension Talk {
  /// The conversation as the settings want it. Nothing of it is opened before somebody talks.
  static func made(
    _ settings: Settings, _ instance: Instance, _ link: ActiveLink, sound: SoundSystem, notifier: Notifier,
    loop: EventLoop
  ) -> Talk {
    var voice = Synthesizer.Options()
    voice.language = settings.talk.languageOrDefault.nonEmpty
    voice.voice = settings.voice.voiceOrDefault.nonEmpty
    voice.rate = settings.voice.rateOrDefault
    voice.pitch = settings.voice.pitchOrDefault
    voice.volume = settings.voice.volumeOrDefault
    return Talk(
      options: TalkOptions(settings.talk), sound: sound, synthesizer: Synthesizer(options: voice),
      transcribers: TranscriberSet(settings.talk, instance, loop: loop), keptPath: instance.keptTranscripts, loop: loop,
      gateway: { link.current },
      openedByAgent: { gateway in
        let note = Notifier.Note(
          title: "The microphone is open", body: "Asked for by \(gateway). End it: talknode ptt cancel", isSilent: true,
          icon: "audio-input-microphone", category: "device", lasts: .seconds(10))
        do throws(DBusError) { try await notifier.show(note) } catch {
          Log.once("talk sign", .warning, "That the microphone is open can't be shown: \(error.message)")
        }
      })
  }
}

extension KeyTrigger {
  /// The key that the settings name; nil when they name none. It presses straight into the conversation, on the loop both share.
  static func made(_ section: TalkKeySettings, _ talk: Talk, loop: EventLoop) -> KeyTrigger? {
    guard let name = section.keyOrDefault.nonEmpty else { return nil }
    do throws(TriggerError) {
      let options = Options(
        key: try KeyCode(name), device: section.deviceOrDefault.nonEmpty,
        tapThreshold: .milliseconds(section.tapOrDefault))
      return KeyTrigger(options: options, loop: loop) { signal in
        talk.assumeIsolated { $0.press(signal == .start ? .start : .stop) }
      }
    } catch {
      Log.warning("talk.key can't be used: \(error)")
      return nil
    }
  }
}

extension ShortcutTrigger {
  /// The desktop's shortcut, when the settings ask for it. It presses straight into the conversation, like the key.
  static func made(
    _ section: TalkShortcutSettings, _ talk: Talk, address: Bus.Address, loop: EventLoop
  ) -> ShortcutTrigger? {
    if !section.useOrDefault { return nil }
    let options = Options(keys: section.keysOrDefault.nonEmpty, tapThreshold: .milliseconds(section.tapOrDefault))
    return ShortcutTrigger(options: options, address: address, loop: loop) { signal in
      talk.assumeIsolated { $0.press(signal == .start ? .start : .stop) }
    }
  }
}

extension AudioSettings {
  init(_ section: AudioSection) {
    let backend: Backend =
      switch section.backendOrDefault {
      case .auto: .auto
      case .pulse: .pulse
      case .alsa: .alsa
      }
    self.init(
      backend: backend, input: section.inputOrDefault.nonEmpty, output: section.outputOrDefault.nonEmpty,
      server: section.serverOrDefault.nonEmpty)
  }
}

extension TalkOptions {
  init(_ section: TalkSettings) {
    self.init()
    transcriber = TranscriberChoice(section.transcriberOrDefault)
    language = section.languageOrDefault.nonEmpty
    sessionKey = section.sessionOrDefault.nonEmpty
    speaksAnswers = section.speakAnswersOrDefault
    usesGatewayVoice = section.gatewayVoiceOrDefault
    hasCues = section.cuesOrDefault
    longest = .seconds(section.longestOrDefault)
  }
}

extension TalkOptions.TranscriberChoice {
  init(_ choice: TalkSettings.Transcriber) {
    switch choice {
    case .auto: self = .auto
    case .gateway: self = .gateway
    case .command: self = .command
    case .pocketsphinx: self = .pocketsphinx
    }
  }
}

extension TranscriberSet {
  init(_ section: TalkSettings, _ instance: Instance, loop: EventLoop) {
    var command: CommandTranscriber?
    if !section.commandOrDefault.isEmpty {
      let options = CommandTranscriber.Options(
        command: section.commandOrDefault, temporaryFolder: instance.temporaryFolder)
      do throws(SpeechError) { command = try CommandTranscriber(options: options, loop: loop) } catch {
        Log.warning("talk.command can't be used: \(error)")
      }
    }
    var grammar: SpeechGrammar?
    if !section.phrasesOrDefault.isEmpty {
      do throws(SpeechError) { grammar = try SpeechGrammar(sentences: section.phrasesOrDefault) } catch {
        Log.warning("talk.phrases can't be used: \(error)")
      }
    }
    self.init(
      choice: TalkOptions.TranscriberChoice(section.transcriberOrDefault), command: command,
      pocketsphinx: PocketsphinxTranscriber(options: PocketsphinxTranscriber.Options(grammar: grammar)))
  }
}

extension Instance {
  /// What was said and not delivered.
  var keptTranscripts: String { state + "/transcripts.json" }
  /// Sound on its way to a recogniser.
  var temporaryFolder: String { state + "/tmp" }
}

extension String {
  fileprivate var nonEmpty: String? { isEmpty ? nil : self }
}
