import Conversation
import System

/// The notification that shows what is being heard while a person talks. It is replaced as the words come, and goes with the answer.
actor TalkNote {
  private let notifier: Notifier
  private var number: UInt32 = 0
  private var text = ""
  private var shown = ""

  init(notifier: Notifier) { self.notifier = notifier }

  /// Shows `notices` until they end. A server that is slow gets the newest of them.
  func follow(_ notices: AsyncStream<TalkNotice>) async {
    for await notice in notices {
      switch notice {
      case .phase(.preparing): text = ""
      case .phase(.listening): await show("Listening")
      case .phase(.recognising): await show("Understanding")
      case .phase(.thinking): await show("Thinking")
      case .phase(.speaking), .phase(.idle): await close()
      case .partial(let words):
        text = words
        if number != 0 { await show("Listening") }
      case .trouble, .level: break
      }
    }
    await close()
  }

  private func show(_ title: String) async {
    if shown == title + text { return }
    shown = title + text
    let note = Notifier.Note(
      title: title, body: text, isSilent: true, icon: "audio-input-microphone", category: "device", replaces: number)
    do throws(DBusError) { number = try await notifier.show(note) } catch {
      Log.once("talk note", .warning, "What is heard can't be shown on the desktop: \(error.message)")
    }
  }

  private func close() async {
    shown = ""
    guard number != 0 else { return }
    try? await notifier.close(number)
    number = 0
  }
}
