import Audio
import Conversation
import GatewayClient
import Transport

/// How the rooms' errors look on the terminal.
extension Failure {
  init(_ error: LinkError) {
    let exit: ExitStatus =
      switch error.code {
      case .state: .cantCreate
      case .identityDamaged: .ioError
      case .offerInvalid, .offerExpired, .plaintextRefused, .joinLink, .unknownGateway: .data
      case .certificateUntrusted, .pinMismatch: .noPermission
      case .unreachable, .joinLinkFailed, .notConnected: .unavailable
      case .timeout, .connectionLost, .tooManyRequests, .cancelled: .temporary
      case .protocolViolation: .protocolError
      default: .failed
      }
    self.init(error.code.rawValue, error.summary, remedy: error.remedy, exit: exit)
  }

  init(_ error: AudioError) {
    let exit: ExitStatus =
      switch error.code {
      case .microphoneBusy, .speakerBusy, .deviceBusy, .deviceStuck, .deviceLost: .temporary
      case .notPermitted: .noPermission
      case .formatUnsupported, .formatHeaderless, .damaged, .tooLong: .data
      case .stopped: .interrupted
      default: .unavailable
      }
    self.init(error.code.rawValue, error.summary, remedy: error.remedy, exit: exit)
  }

  /// What was said could not be kept, or not be forgotten.
  init(storing error: TalkError) {
    self.init(error.code, error.summary, remedy: error.remedy, exit: .ioError)
  }

  /// A socket to `endpoint` that could not be opened.
  init(_ error: TransportError, reaching endpoint: Endpoint) {
    self.init(
      "UNREACHABLE", "The gateway \(endpoint) can't be reached.", cause: error.description,
      remedy: "Check that it runs and that this machine may reach it: talknode pair \(endpoint)", exit: .unavailable)
  }
}
