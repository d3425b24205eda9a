/// How the program ends: the codes of sysexits.h, so that scripts can tell a typing error from a gateway that is away.
struct ExitStatus: Equatable, Sendable {
  let code: Int32
  static let ok = ExitStatus(code: 0)
  /// Something that was tried did not succeed, and none of the others fits.
  static let failed = ExitStatus(code: 1)
  /// The command line is wrong.
  static let usage = ExitStatus(code: 64)
  /// Data that was given is wrong: a setup code, params.
  static let data = ExitStatus(code: 65)
  /// A file that was named is not there.
  static let noInput = ExitStatus(code: 66)
  /// What is needed is not there: the daemon, a device.
  static let unavailable = ExitStatus(code: 69)
  /// A mistake of the program itself.
  static let software = ExitStatus(code: 70)
  /// The system refused something basic.
  static let system = ExitStatus(code: 71)
  static let cantCreate = ExitStatus(code: 73)
  static let ioError = ExitStatus(code: 74)
  /// Try again later.
  static let temporary = ExitStatus(code: 75)
  /// The other side speaks another language.
  static let protocolError = ExitStatus(code: 76)
  static let noPermission = ExitStatus(code: 77)
  static let configuration = ExitStatus(code: 78)
  /// Ended by SIGINT, as a shell counts it.
  static let interrupted = ExitStatus(code: 130)

  /// What each means, in a few words for the manual.
  static let meanings: [(status: ExitStatus, meaning: String)] = [
    (.ok, "It was done."), (.failed, "It did not succeed, and none of the others fits."),
    (.usage, "The command line is wrong."),
    (.data, "Data that was given is wrong, or there was nothing to hear or send."),
    (.noInput, "A file that was named is not there."),
    (.unavailable, "What is needed is not there: the running talknode, a device."),
    (.software, "A mistake of the program itself."), (.system, "The system refused something basic."),
    (.cantCreate, "A file or a folder can't be made."), (.ioError, "A file can't be read or written."),
    (.temporary, "Try again later: something is busy or away."),
    (.protocolError, "The other side speaks another language."), (.noPermission, "It is not permitted."),
    (.configuration, "The settings are wrong."), (.interrupted, "Ended by Ctrl-C."),
  ]
}

/// Why a command could not be done: the error type of this room, as it is shown on the terminal.
struct Failure: Error, Sendable, Equatable {
  /// A stable word for programs, for example `NO_DAEMON`.
  let code: String
  /// One sentence.
  let summary: String
  /// What lies behind it, in the words of the part that failed.
  let cause: String?
  /// What to do next: a command that can be pasted, or a sentence.
  let remedy: String?
  let exit: ExitStatus

  init(_ code: String, _ summary: String, cause: String? = nil, remedy: String? = nil, exit: ExitStatus = .failed) {
    self.code = code
    self.summary = summary
    self.cause = cause
    self.remedy = remedy
    self.exit = exit
  }

  static func usage(_ summary: String, remedy: String? = nil) -> Failure {
    Failure("USAGE", summary, remedy: remedy, exit: .usage)
  }
}
