import Audio
import Crypto
import GatewayClient
import GatewayProtocol
import Speech
import System

/// The gateway's recogniser: µ-law goes there in pieces, text comes back (talk-and-chat §3.5; `RelayTranscription` is the rule).
public struct GatewayTranscriber: Transcriber {
  public let name = "gateway"
  public let hasPartials = true
  private let link: GatewayLink

  public init(link: GatewayLink) { self.link = link }

  /// Ready only when the gateway says that transcription is set up.
  public func availability() async -> SpeechAvailability {
    do throws(LinkError) {
      return Self.availability(
        in: try await link.request("talk.catalog", [:], as: .operator, timeout: GatewayFacts.patience))
    } catch {
      return .absent(reason: error.summary, remedy: error.remedy)
    }
  }

  /// What a `talk.catalog` says (talk-and-chat §3.3): a group without `ready`, of an older gateway, is judged by its providers.
  static func availability(in catalog: JSON) -> SpeechAvailability {
    let group = catalog["transcription"]
    let configured = (group?["providers"]?.array ?? []).contains { $0["configured"]?.bool == true }
    guard group?["ready"]?.bool ?? configured else {
      return .absent(
        reason: "The gateway has no transcription set up.",
        remedy: "Set up a realtime transcription provider on the gateway, or choose another transcriber in [talk].")
    }
    return .ready("free dictation by the gateway's provider; the sound leaves this machine")
  }

  public func begin(_ request: TranscriptionRequest) async throws(SpeechError) -> any Transcription {
    RelaySession(link: link, rate: request.rate)
  }
}

/// One transcription over the relay. The actor does what `RelayTranscription` says.
actor RelaySession: Transcription {
  nonisolated let events: AsyncStream<TranscriptionEvent>
  private let sink: AsyncStream<TranscriptionEvent>.Continuation
  private let link: GatewayLink
  private let rate: Int
  private var relay = RelayTranscription()
  private var resampler: Resampler?
  private var timer: Task<Void, Never>?
  private var listening: Task<Void, Never>?
  private var outcome: Result<String, SpeechError>?
  private var waiting: CheckedContinuation<Void, Never>?
  private var hasBegun = false

  init(link: GatewayLink, rate: Int) {
    self.link = link
    self.rate = rate
    (events, sink) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(64))
  }

  /// After this long an answer to create is not heard any more.
  private static let createLimit: Duration = .seconds(120)

  private func begin() {
    if hasBegun || outcome != nil { return }
    hasBegun = true
    let link = link
    // Before the create: events may come before its answer does.
    let events = link.events(of: .operator)
    let statuses = link.statuses()
    listening = Task { [weak self] in
      await withTaskGroup(of: Void.self) { group in
        group.addTask {
          for await event in events where event.name == "talk.event" {
            if let payload = event.payload { await self?.on(.talkEvent(payload)) }
          }
        }
        group.addTask {
          // The session dies with the socket it was made on.
          for await status in statuses where !status.operator.isConnected { await self?.on(.lost) }
        }
      }
    }
    perform(relay.begin())
    // Stays until the answer is there, though the relay waits for it no longer than `readyLimit`: whatever is made has to be closed.
    Task {
      do throws(LinkError) {
        let answer = try await link.request(
          "talk.session.create", RelayTranscription.createParams, as: .operator, timeout: Self.createLimit)
        on(.created(answer))
      } catch {
        on(.createFailed(error.summary))
      }
    }
  }

  func feed(_ samples: [Float]) async {
    begin()
    if outcome != nil { return }
    do throws(AudioError) {
      if resampler == nil { resampler = try Resampler(from: rate, to: 8000, quality: .medium) }
      on(.sound(MuLaw.encode(try resampler!.process(samples))))
    } catch {
      end(.failure(SpeechError(.failed, error.summary, remedy: error.remedy)))
    }
  }

  func finish() async throws(SpeechError) -> String {
    begin()
    if outcome == nil, let rest = try? resampler?.finish() { on(.sound(MuLaw.encode(rest))) }
    on(.finish)
    if outcome == nil {
      await withCheckedContinuation { waiter in
        // Looked at again: the runtime may have let others run since.
        if outcome != nil { waiter.resume() } else { waiting = waiter }
      }
    }
    switch outcome! {
    case .success(let text): return text
    case .failure(let error): throw error
    }
  }

  func cancel() async {
    on(.lost)
    end(.failure(SpeechError(.cancelled, "The capture was cancelled.")))
  }

  private func on(_ event: RelayTranscription.Event) { perform(relay.on(event)) }

  private func perform(_ actions: [RelayTranscription.Action]) {
    for action in actions {
      switch action {
      case .append(let id, let bytes): append(id, bytes)
      case .close(let id):
        let link = link
        Task {
          _ = try? await link.request(
            "talk.session.close", ["sessionId": .string(id)], as: .operator, timeout: .seconds(8))
        }
      case .startTimer(let limit):
        timer?.cancel()
        timer = Task { [weak self] in
          try? await Task.sleep(for: limit)
          if !Task.isCancelled { await self?.on(.timeout) }
        }
      case .partial(let text): sink.yield(.partial(text))
      case .utterance(let text): sink.yield(.final(text))
      case .finished(let text): end(.success(text))
      case .failed(let reason): end(.failure(SpeechError(.failed, "Transcription by the gateway failed: \(reason)")))
      }
    }
  }

  private func append(_ id: String, _ bytes: [UInt8]) {
    let params: JSON = ["sessionId": .string(id), "audioBase64": .string(Base64.encode(bytes))]
    let link = link
    Task { [weak self] in
      do throws(LinkError) {
        _ = try await link.request("talk.session.appendAudio", params, as: .operator, timeout: .seconds(8))
        await self?.on(.appended)
      } catch {
        await self?.on(.appendFailed(error.summary))
      }
    }
  }

  private func end(_ result: Result<String, SpeechError>) {
    if outcome != nil { return }
    outcome = result
    if case .failure(let error) = result { sink.yield(.failed(error)) }
    sink.finish()
    timer?.cancel()
    listening?.cancel()
    waiting?.resume()
    waiting = nil
  }
}
