import GatewayProtocol

/// What let a client in: its method, and the setup code where that was it.
struct Credential {
  var method: Admission.Method
  var client: ConnectParams.Client
  var code: SetupCodes.Code?
}

extension Records {
  /// Finds the credential that counts, in the order of protocol §5.2, or turns the client away.
  mutating func authenticate(
    _ params: ConnectParams, _ claim: DeviceStore.Claim?, from peer: Admission.Peer, to house: Admission.House
  ) throws(Refusal) -> Credential {
    let auth = params.auth
    let shown = shownCredentials(auth)
    let isLimited = !peer.isDirect || house.limitsLoopback
    if isLimited {
      let waits = shown.compactMap {
        limit.wait(RateLimit.Key(address: peer.address, credential: $0), nowMs: house.nowMs)
      }
      if let wait = waits.max() { throw AuthFailure.rateLimited.refusal(retryAfterMs: wait) }
    }
    switch match(params, claim, nowMs: house.nowMs) {
    case .success(let credential): return credential
    case .failure(let failure):
      if isLimited {
        for kind in shown { limit.failed(RateLimit.Key(address: peer.address, credential: kind), nowMs: house.nowMs) }
      }
      throw failure.refusal(
        canRetry: claim != nil && !(auth.token ?? "").isEmpty && (auth.deviceToken ?? "").isEmpty)
    }
  }

  private func shownCredentials(_ auth: ConnectParams.Auth) -> [String] {
    func isShown(_ secret: String?) -> Bool { !(secret ?? "").isEmpty }
    var shown: [String] = []
    if isShown(auth.token) || isShown(auth.password) { shown.append("shared") }
    if isShown(auth.deviceToken) { shown.append("device-token") }
    if isShown(auth.bootstrapToken) { shown.append("bootstrap-token") }
    return shown
  }

  private mutating func match(
    _ params: ConnectParams, _ claim: DeviceStore.Claim?, nowMs: Int64
  ) -> Result<Credential, AuthFailure> {
    let auth = params.auth
    if let secret = auth.bootstrapToken, !secret.isEmpty, let claim {
      let code = codes.present(
        secret, deviceID: claim.deviceID, publicKey: claim.publicKey, role: claim.role, nowMs: nowMs)
      if let code { return .success(Credential(method: .bootstrap, client: params.client, code: code)) }
    }
    // The secret counts in either member.
    for secret in [auth.token, auth.password].compactMap(\.self) where !secret.isEmpty {
      if Secret.areEqual(secret, token) || password.map({ Secret.areEqual(secret, $0) }) ?? false {
        return .success(Credential(method: .shared, client: params.client))
      }
    }
    let explicit = auth.deviceToken.flatMap { $0.isEmpty ? nil : $0 }
    if let claim, let secret = explicit ?? auth.token, !secret.isEmpty {
      let verdict = devices.verify(
        secret, deviceID: claim.deviceID, publicKey: claim.publicKey, role: claim.role, scopes: claim.scopes,
        nowMs: nowMs)
      switch verdict {
      case .good: return .success(Credential(method: .deviceToken, client: params.client))
      case .narrow: return .failure(.scopeMismatch)
      case .wrong: break
      }
    }
    return .failure(failure(of: auth, explicit: explicit))
  }

  private func failure(of auth: ConnectParams.Auth, explicit: String?) -> AuthFailure {
    let isShared = !(auth.token ?? "").isEmpty || !(auth.password ?? "").isEmpty
    if explicit != nil { return .deviceTokenMismatch }
    if !isShared && !(auth.bootstrapToken ?? "").isEmpty { return .bootstrapTokenInvalid }
    if password != nil { return isShared ? .passwordMismatch : .passwordMissing }
    return isShared ? .tokenMismatch : .tokenMissing
  }
}
