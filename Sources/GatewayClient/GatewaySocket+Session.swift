import GatewayProtocol
import System
import Transport

/// One turn of a socket: the connect, the session that it leads to, and what its end means.
extension GatewaySocket {
  // MARK: One connect, and the session after it

  func connect(_ attempt: Int, _ generation: Int) async {
    let credentials: Credentials
    do throws(LinkError) { credentials = try await registry.storedCredentials(for: gateway.id) } catch {
      return await ended(.retry(.slow, error.summary), generation)
    }
    if looksForRoute { await findRoute() }
    if generation != self.generation { return }
    let auth = AuthAttempt(
      credentials, role: role, withDeviceToken: addsDeviceToken, sharedRefused: sharedRefused)
    let context = context(credentials, auth)
    shown = credentials
    if credentials.removedAtMs != nil {
      return await ended(ConnectVerdict(.stop(ConnectVerdict.removed(context))), generation)
    }
    if credentials.revokedRoles.contains(role) {
      return await ended(ConnectVerdict(.stop(ConnectVerdict.revoked(context))), generation)
    }
    addsDeviceToken = false
    var connectOptions = ConnectOptions()
    connectOptions.trust = gateway.trust
    connectOptions.headers = options.headers
    connectOptions.timeout = options.timings.connectTimeout
    connectOptions.proxy = options.proxy(gateway.endpoint)
    connectOptions.maxMessage = GatewayChannel.longestBeforeHello
    let socket: WebSocket
    do throws(TransportError) {
      socket = try await WebSocket.connect(to: gateway.endpoint, options: connectOptions, loop: loop)
    } catch {
      looksForRoute = gateway.routes.count > 1
      return await ended(ConnectVerdict(error, context), generation)
    }
    let channel = GatewayChannel(socket: socket)
    if generation != self.generation { return await channel.drop("not wanted any more") }
    self.channel = channel
    on(.opened)
    let reader = Task { await channel.run() }
    do throws(LinkError) {
      let hello = try await handshake(channel, credentials, auth, context)
      try await keep(hello, auth)
      if generation != self.generation { return }
      welcome(hello, auth, channel, generation)
      await channel.welcome(maxPayload: hello.maxPayload, listener: listener(channel, generation))
      let closure = await reader.value
      await ended(ConnectVerdict(closure, context), generation)
    } catch {
      let verdict = await verdict(on: error, channel, reader, context)
      await ended(verdict, generation)
    }
  }

  private func handshake(
    _ channel: GatewayChannel, _ credentials: Credentials, _ auth: AuthAttempt, _ context: ConnectContext
  ) async throws(LinkError) -> HelloOK {
    guard let payload = await channel.nextChallenge() else {
      throw LinkError(.connectionLost, "The gateway closed the connection before its challenge.")
    }
    let challenge = try Challenge(payload: payload)
    let params = try ConnectParams(
      role: role, surface: role == .node ? await surface() : NodeSurface(), client: client, auth: auth,
      identity: identity, challenge: challenge, signature: context.signature, nowMs: options.clock().wallMs)
    let answer = try await channel.request("connect", params.json, timeout: options.timings.helloDeadline)
    guard let hello = HelloOK(payload: answer) else {
      throw LinkError(.protocolViolation, "The gateway answered connect with something that is no hello-ok.")
    }
    return hello
  }

  /// What the failure of a handshake means. A refusal is told in the response and again in the close that follows; when there is no
  /// response, the close alone counts.
  private func verdict(
    on error: LinkError, _ channel: GatewayChannel, _ reader: Task<Closure, Never>, _ context: ConnectContext
  ) async -> ConnectVerdict {
    if error.code == .connectionLost { return ConnectVerdict(await reader.value, context) }
    var verdict = ConnectVerdict(error, context)
    if case .wait(var wait) = verdict.course, wait.requestID == nil {
      // An old gateway names the request in the close only.
      let limit = loop.after(.seconds(1)) { Task { await channel.drop("no close after the refusal") } }
      let closure = await reader.value
      loop.cancel(limit)
      wait.requestID = ConnectVerdict.requestID(in: closure.reason)
      verdict.course = .wait(wait)
    }
    return verdict
  }

  private func context(_ credentials: Credentials, _ auth: AuthAttempt) -> ConnectContext {
    let stored = credentials.deviceTokens[role]
    return ConnectContext(
      role: role, url: gateway.endpoint.description, auth: auth,
      hasUsableDeviceToken: stored.map { Self.covers($0.scopes, ConnectParams.scopes(of: role)) } ?? false,
      isTrustedEndpoint: gateway.isTrustedEndpoint, deviceTokenRetrySpent: deviceTokenRetrySpent,
      signature: credentials.signature ?? .v3, signaturesRefused: signaturesRefused)
  }

  /// Whether a token with the scopes `held` may ask for `wanted` (protocol §5.2).
  static func covers(_ held: [String], _ wanted: [String]) -> Bool {
    wanted.allSatisfy { scope in
      held.contains(scope) || held.contains("operator.admin")
        || (scope == "operator.read" && held.contains("operator.write"))
    }
  }

  // MARK: Beginning and end of a session

  /// Tokens are stored before anything else happens: one that is lost can't be had again without a person.
  private func keep(_ hello: HelloOK, _ auth: AuthAttempt) async throws(LinkError) {
    let role = role
    let endpoint = gateway.endpoint
    let nowMs = options.clock().wallMs
    do throws(LinkError) {
      shown = try await registry.updateCredentials(of: gateway.id) {
        $0.keep(
          hello.auth, role: role, bootstrapped: auth.source == .bootstrap,
          linkIsTrusted: PlaintextPolicy.allows(endpoint),
          nowMs: nowMs)
      }
      try await registry.setEndpoint(endpoint, of: gateway.id)
    } catch  where error.code == .unknownGateway {
      // Forgotten in the meantime: the owner stops this link.
    } catch {
      Log.error("What the gateway issued can't be stored: \(error)")
    }
  }

  private func welcome(_ hello: HelloOK, _ auth: AuthAttempt, _ channel: GatewayChannel, _ generation: Int) {
    if auth.source == .shared && auth.deviceToken != nil { sharedRefused = true }
    deviceTokenRetrySpent = false
    signaturesRefused = []
    looksForRoute = false
    lastCourse = nil
    toldOf = nil
    Log.info("\(gateway.name): \(role.rawValue) connection is up.")
    on(.welcomed(tick: hello.tickInterval))
    hooks.welcomed(hello, channel)
  }

  private func listener(_ channel: GatewayChannel, _ generation: Int) -> GatewayChannel.Listener {
    GatewayChannel.Listener(
      message: { [weak self] in self?.assumeIsolated { if generation == $0.generation { $0.on(.received) } } },
      event: { [weak self] event in
        self?.assumeIsolated { if generation == $0.generation { $0.hooks.event(event, channel) } }
      },
      gap: { [weak self] missed in
        self?.assumeIsolated { if generation == $0.generation { $0.hooks.gap(missed) } }
      })
  }

  private func ended(_ verdict: ConnectVerdict, _ generation: Int) async {
    for effect in verdict.effects { await apply(effect, isCurrent: generation == self.generation) }
    if generation != self.generation { return }
    var course = verdict.course
    if case .wait(var wait) = course {
      if case .wait(let before)? = lastCourse {
        if wait.requestID == nil && wait.reason == before.reason { wait.requestID = before.requestID }
      } else {
        waitingSinceMs = options.clock().wallMs
      }
      course = .wait(wait)
    }
    lastCourse = course
    tell(course)
    // A refusal leaves the socket open for a moment; it must not outlive its turn.
    if channel != nil, let channel = takeChannel() { part(with: channel, 1000, "") }
    on(.ended(course))
    if verdict.effects.contains(.markRemoved), case .stop(let stop) = course { hooks.removed(stop) }
  }

  /// A verdict is on what was shown: what a person has stored since then is not touched, nor what another turn of this socket knows.
  private func apply(_ effect: ConnectVerdict.Effect, isCurrent: Bool) async {
    let role = role
    let shown = shown
    let nowMs = options.clock().wallMs
    switch effect {
    case .forgetDeviceToken:
      await update { if $0.deviceTokens[role] == shown.deviceTokens[role] { $0.deviceTokens[role] = nil } }
    case .dropBootstrapToken: await update { if $0.bootstrapToken == shown.bootstrapToken { $0.bootstrapToken = nil } }
    case _ where !isCurrent: break
    case .markRemoved:
      await update {
        $0.removedAtMs = nowMs
        $0.deviceTokens = [:]
      }
    case .markRevoked: await update { $0.revokedRoles.insert(role) }
    case .addDeviceTokenOnce:
      addsDeviceToken = true
      deviceTokenRetrySpent = true
    case .sign(let version):
      signaturesRefused.insert(version == .v3 ? .v2 : .v3)
      await update { $0.signature = version }
    }
  }

  private func update(_ change: @escaping @Sendable (inout Credentials) -> Void) async {
    do throws(LinkError) { try await registry.updateCredentials(of: gateway.id, change) } catch {
      Log.error("The credentials of \(gateway.name) can't be changed: \(error)")
    }
  }

  /// One line for each new condition, however often it repeats.
  private func tell(_ course: ConnectVerdict.Course) {
    let who = "\(gateway.name): \(role.rawValue)"
    let line: String
    switch course {
    case .retry(_, let reason): line = "\(who) connection is down: \(reason). It is tried again by itself."
    case .wait(let wait):
      let request = wait.requestID.map { " On the gateway host: openclaw devices approve \($0)" } ?? ""
      line = "\(who) waits for approval (\(wait.reason)).\(request)"
    case .stop(let stop): line = "\(who) connection is stopped: \(stop.summary) \(stop.remedy)"
    }
    if line == toldOf { return }
    toldOf = line
    if case .stop = course { Log.error(line) } else { Log.warning(line) }
  }

  // MARK: Routes

  /// Takes the first route that answers; keeps the one in use when none does (protocol §7.6).
  private func findRoute() async {
    looksForRoute = false
    // Behind a proxy only the proxy can tell.
    if options.proxy(gateway.primary) != nil { return }
    if let found = await RouteProbe.first(of: gateway.routes, loop: loop) { gateway.endpoint = found }
  }
}
