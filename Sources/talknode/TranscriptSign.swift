import Conversation
import System

/// Shows what is understood while a person speaks, in one notification that changes (`[talk] show_transcript`).
actor TranscriptSign {
  private let notifier: Notifier
  /// The notification that is changed; 0 = none yet.
  private var number: UInt32 = 0
  /// Counts captures: a note that was on its way when one ended is not the next one's to change.
  private var captures = 0
  private var wanted: Notifier.Note?
  private var isShowing = false

  init(notifier: Notifier) { self.notifier = notifier }

  func took(_ notice: TalkNotice) {
    switch notice {
    case .phase(.listening): show("Listening", "")
    case .partial(let text): show("Listening", text)
    case .trouble(let sentence): show("TalkNode", sentence)
    // The next capture has a notification of its own; this one goes by itself.
    case .phase(.idle):
      number = 0
      captures += 1
    case .phase, .level: break
    }
  }

  /// One note is on its way at a time; what changes meanwhile is shown after it, the newest only.
  private func show(_ title: String, _ body: String) {
    let note = Notifier.Note(
      title: title, body: body, urgency: .low, isSilent: true, icon: "audio-input-microphone", category: "device",
      replaces: number, lasts: .seconds(15))
    if wanted == note { return }
    wanted = note
    if isShowing { return }
    isShowing = true
    Task {
      while var next = wanted {
        wanted = nil
        next.replaces = number
        do throws(DBusError) {
          let capture = captures
          let shown = try await notifier.show(next)
          if capture == captures { number = shown }
        } catch {
          Log.once("transcript sign", .warning, "What is understood can't be shown: \(error.message)")
        }
      }
      isShowing = false
    }
  }
}
