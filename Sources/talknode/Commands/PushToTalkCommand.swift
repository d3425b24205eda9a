import GatewayProtocol
import System

/// `talknode ptt …`: one command that any compositor can bind.
enum PushToTalkCommand {
  private static let wait = Option("wait", "return when the answer has been spoken")
  private static let live = Option("live", "show level and text while it is heard, and the troubles")
  private static let liveNote = """
    With --live in a terminal, Enter ends the capture and sends what was said, and Ctrl-C forgets it. With --live --json each \
    notice is an object on a line of its own, before the answer.
    """

  static let verbs: [Verb] = [
    verb("start", .start, "open the microphone"),
    verb("stop", .stop, "end the capture and send what was said", canWait: true),
    verb("toggle", .toggle, "start when nothing is open, else stop: for shortcuts that know no release"),
    verb("cancel", .cancel, "end the capture and forget what was said"),
    verb("once", .once, "hear one utterance, to its end, and send it", canWait: true),
    Verb("ptt last", "what was said and has not reached the agent", options: [.json], run: last),
    Verb("ptt resend", "send the newest of what has not reached the agent", options: [.json], run: resend),
  ]

  static let hush = Verb("hush", "silence what is being spoken", options: [.json]) {
    arguments, terminal throws(Failure) in
    let context = Context(arguments, terminal)
    let answer = try await ask(.hush, context, timeout: .seconds(5))
    if context.wantsJSON { terminal.print(answer) }
    return .ok
  }

  private static func verb(_ name: String, _ request: TalkRequest, _ summary: String, canWait: Bool = false) -> Verb {
    Verb(
      "ptt \(name)", summary, options: canWait ? [wait, live, .json] : [live, .json],
      notes: request == .start || request == .toggle ? [liveNote] : []
    ) {
      arguments, terminal throws(Failure) in try await run(request, arguments, terminal)
    }
  }

  private static func run(
    _ request: TalkRequest, _ arguments: Arguments, _ terminal: Terminal
  ) async throws(Failure) -> ExitStatus {
    let context = Context(arguments, terminal)
    let loop = context.loop()
    defer { loop.stop() }
    let client = try await ControlClient.require(context.instance, loop: loop)
    let watcher =
      arguments.has(live) ? try await LiveView(context, loop, endsCapture: [.start, .toggle].contains(request)) : nil
    var answer = try await client.call(.talk(request), timeout: .seconds(60))
    // A start answers when the microphone is open: shown on until the capture has ended, by this terminal or otherwise.
    if let watcher, answer["status"] == nil { answer = try await watcher.untilEnd(of: answer, client) }
    await watcher?.end(after: arguments.has(wait) && answer["status"]?.string == "queued")
    show(answer, context)
    if watcher == nil, arguments.has(wait), answer["status"]?.string == "queued" {
      try await untilIdle(context.instance, loop)
    }
    return exit(of: answer)
  }

  /// A capture that gave nothing is told apart by scripts.
  private static func exit(of answer: JSON) -> ExitStatus {
    switch answer["status"]?.string {
    case "empty", "idle", "cancelled": .data
    case "busy", "offline": .temporary
    default: .ok
    }
  }

  private static func show(_ answer: JSON, _ context: Context) {
    if context.wantsJSON { return context.terminal.print(answer) }
    let words = answer["transcript"]?.string
    let line: String =
      switch answer["status"]?.string {
      case nil: "listening"
      case "queued": words ?? ""
      case "offline": "\(words ?? "")\nThe gateway can't be reached: it is kept. Send it: talknode ptt resend"
      case "empty": answer["trouble"]?.string ?? "nothing was heard"
      case "cancelled": "forgotten"
      case "idle": "nothing was open"
      case "busy": "another capture is open"
      case "ended": "the capture has ended"
      case let other?: other
      }
    context.terminal.print(line)
  }

  private static func untilIdle(_ instance: Instance, _ loop: EventLoop) async throws(Failure) {
    let client = try await ControlClient.require(instance, loop: loop)
    try await client.watch { json throws(Failure) in json["phase"]?.string != "idle" }
    await client.close()
  }

  private static func ask(_ request: TalkRequest, _ context: Context, timeout: Duration) async throws(Failure) -> JSON {
    let loop = context.loop()
    defer { loop.stop() }
    let client = try await ControlClient.require(context.instance, loop: loop)
    return try await client.call(.talk(request), timeout: timeout)
  }

  private static func last(_ arguments: Arguments, _ terminal: Terminal) async throws(Failure) -> ExitStatus {
    let context = Context(arguments, terminal)
    let kept = try await ask(.kept, context, timeout: .seconds(5))
    if context.wantsJSON {
      terminal.print(kept)
    } else if let all = kept.array, !all.isEmpty {
      for note in all {
        let text = note["sound"]?.string.map { "(not understood; the sound is in \($0))" } ?? note["text"]?.string
        terminal.print("\(WallClock.iso8601(note["atMs"]?.int ?? 0))  \(text ?? "")")
      }
    } else {
      terminal.print("nothing waits: all that was said has reached the agent")
    }
    return .ok
  }

  private static func resend(_ arguments: Arguments, _ terminal: Terminal) async throws(Failure) -> ExitStatus {
    let context = Context(arguments, terminal)
    // The agent has two minutes, and its answer is spoken.
    let answer = try await ask(.resend, context, timeout: .seconds(300))
    if context.wantsJSON {
      terminal.print(answer)
    } else {
      terminal.print(answer["reply"]?.string ?? "sent")
    }
    return .ok
  }
}
