import System

/// Has positions from whom the settings choose. Nothing is opened before somebody asks.
public final class Locator: Sendable {
  public let options: LocationOptions
  public let loop: EventLoop
  private let gpsd: FixSource
  private let geoclue: FixSource
  private let geoclueClient: GeoClueClient

  private static let plugIn = "Plug one in, or name it: sudo gpsdctl add /dev/ttyACM0"

  /// `systemBus` is where GeoClue is; it belongs to `loop`.
  public init(options: LocationOptions, systemBus: SharedBus) {
    self.options = options
    loop = systemBus.loop
    gpsd = FixSource(
      FixWatch(
        name: options.gpsd.description, linger: options.linger, hasDetail: false,
        receiverRemedy: Self.plugIn),
      feed: GpsdConnection(options.gpsd, loop: loop).feed, loop: loop)
    geoclueClient = GeoClueClient(bus: systemBus)
    geoclue = FixSource(FixWatch(name: "GeoClue", linger: options.linger), feed: geoclueClient.feed, loop: loop)
  }

  /// Those who are asked, in this order.
  var order: [Provider] {
    switch options.choice {
    case .auto: options.fixed == nil ? [.gpsd, .geoclue] : [.gpsd, .geoclue, .fixed]
    case .only(let provider): [provider]
    }
  }

  /// A position, at the latest at the request's deadline, or the reason why there is none.
  public func locate(_ request: LocationRequest) async throws(LocationError) -> Located {
    var passedOver: [Located.PassedOver] = []
    let order = order
    for (index, provider) in order.enumerated() {
      do throws(LocationError) {
        let isLast = index == order.count - 1
        let fix = try await ask(provider, request, until: isLast ? request.deadline : Self.half(to: request.deadline))
        return Located(fix: fix, provider: provider, passedOver: passedOver)
      } catch {
        if error.code == .cancelled { throw error }
        passedOver.append(Located.PassedOver(provider: provider, error: error))
      }
    }
    // A receiver without a fix under this roof may still have one in the time that is left, when nobody else knows anything.
    if order.count > 1, passedOver[0].error.code == .timeout, Monotonic.now() < request.deadline {
      let fix = try await ask(order[0], request, until: request.deadline)
      return Located(fix: fix, provider: order[0], passedOver: Array(passedOver.dropFirst()))
    }
    throw Self.verdict(passedOver.map(\.error))
  }

  /// The middle of the time that is left: who is asked next needs some of it.
  private static func half(to deadline: Duration) -> Duration {
    let now = Monotonic.now()
    return now + max(.zero, deadline - now) / 2
  }

  /// Of several reasons the one that a person can do most about: somebody is late, somebody refuses, nobody is there. The first of its
  /// kind; one remedy is enough.
  static func verdict(_ errors: [LocationError]) -> LocationError {
    for code in [LocationError.Code.timeout, .disabled] {
      if let error = errors.first(where: { $0.code == code }) { return error }
    }
    guard let first = errors.first else {
      return LocationError(.unavailable, "No source of positions is set.", remedy: "See [location] in the settings.")
    }
    if errors.count == 1 { return first }
    return LocationError(first.code, errors.map(\.summary).joined(separator: " "), remedy: first.remedy)
  }

  private func ask(
    _ provider: Provider, _ request: LocationRequest, until deadline: Duration
  ) async throws(LocationError) -> Fix {
    switch provider {
    case .gpsd: return try await gpsd.fix(maxAge: request.maxAge, detail: request.detail, until: deadline)
    case .geoclue: return try await geoclue.fix(maxAge: request.maxAge, detail: request.detail, until: deadline)
    case .fixed:
      guard let fixed = options.fixed else {
        throw LocationError(
          .unavailable, "The settings name no fixed position.",
          remedy: "Set fixed in [location]: fixed = \"52.3700, 4.8950\".")
      }
      return fixed.fix(receivedAt: Monotonic.now(), receivedMs: WallClock.milliseconds())
    }
  }

  /// Everything that one provider tells from now on.
  public func follow(_ provider: Provider, detail: Detail = .precise) async -> AsyncStream<FixNews> {
    switch provider {
    case .gpsd: return await gpsd.follow(detail: detail)
    case .geoclue: return await geoclue.follow(detail: detail)
    case .fixed:
      let (stream, continuation) = AsyncStream.makeStream(of: FixNews.self)
      if let fix = options.fixed?.fix(receivedAt: Monotonic.now(), receivedMs: WallClock.milliseconds()) {
        continuation.yield(.fix(fix, receiver: "settings"))
      }
      return stream
    }
  }

  /// Gives up all sources.
  public func close() async {
    await gpsd.stop()
    await geoclue.stop()
  }

  // MARK: What could be had

  /// What is known of a provider without asking it for a position: no receiver is started by this, and nothing is looked up.
  public struct Finding: Sendable, Equatable {
    public let provider: Provider
    /// What is there, in a few words, or why it can't be used.
    public let state: Result<String, LocationError>
  }

  /// All that are chosen, in the order in which they are asked. Takes at most some 3 s.
  public func findings() async -> [Finding] {
    var findings: [Finding] = []
    for provider in order {
      let state: Result<String, LocationError>
      switch provider {
      case .gpsd: state = await gpsdState()
      case .geoclue:
        let error = await geoclueClient.check()
        state =
          error.map { .failure($0) } ?? .success("it can be asked; desktops look Wi-Fi names up in the internet for it")
      case .fixed:
        state =
          options.fixed == nil
          ? .failure(LocationError(.unavailable, "The settings name no fixed position.")) : .success("set")
      }
      findings.append(Finding(provider: provider, state: state))
    }
    return findings
  }

  private func gpsdState() async -> Result<String, LocationError> {
    let connection = GpsdConnection(options.gpsd, purpose: .greeting, loop: loop)
    let address = options.gpsd
    let (events, continuation) = AsyncStream.makeStream(of: FeedEvent.self, bufferingPolicy: .bufferingNewest(16))
    loop.perform { connection.feed.open(.coarse) { continuation.yield($0) } }
    defer { loop.perform { connection.feed.close() } }
    let state = try? await withDeadline(.milliseconds(2500)) { () -> Result<String, LocationError>? in
      for await event in events {
        switch event {
        case .failed(let error): return .failure(error)
        case .receivers(0):
          return .failure(
            LocationError(
              .unavailable, "\(address) has no receiver.",
              remedy: Self.plugIn))
        case .receivers(let count):
          let release = connection.release.map { " (\($0))" } ?? ""
          return .success("\(address)\(release), \(count == 1 ? "1 receiver" : "\(count) receivers")")
        default: continue
        }
      }
      return nil
    }
    return (state ?? nil) ?? .failure(LocationError(.unavailable, "\(address) does not answer."))
  }
}
