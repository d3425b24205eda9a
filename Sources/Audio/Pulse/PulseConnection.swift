import CPulse
import System

/// A connection to a sound server, made when it is first needed and made anew when it is gone.
///
/// Everything is asynchronous; a caller puts its own limit on waiting and calls `reset` when the server does not answer.
actor PulseConnection {
  /// What the server says about itself.
  struct Server: Sendable {
    var name: String
    var version: String
    var address: String
    var defaultSource: String?
    var defaultSink: String?
  }

  /// A device as the server describes it, with what opening it needs.
  struct Device: Sendable {
    var device: AudioDevice
    var map: pa_channel_map
  }

  // @unchecked Sendable: it only goes from one actor on the loop to another, which is one and the same thread.
  /// A stream of libpulse's.
  struct Handle: @unchecked Sendable { let pointer: OpaquePointer }

  nonisolated let loop: PulseLoop
  nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

  private var pulse: cpulse { loop.library.table }
  private let address: String?
  private var context: Context?
  private var isReady = false
  private var waiters: [CheckedContinuation<Result<Void, AudioError>, Never>] = []
  private var questions: [UInt64: AnyQuestion] = [:]
  private var lastQuestion: UInt64 = 0
  private var streams: [ObjectIdentifier: PulseStream] = [:]

  init(library: PulseLibrary, address: String?) throws(AudioError) {
    loop = try PulseLoop(library: library)
    self.address = address
  }

  // Not `isolated deinit`: with optimisation, Swift 6.3 ends with “circular reference” in modules that use such an actor.
  // No stream is left: each holds its connection.
  deinit {
    loop.perform { [loop, context] in
      context?.close(loop.library.table)
      loop.stop()
    }
  }

  // MARK: The connection

  /// Returns when the server is ready; at once when it already is.
  func connect() async throws(AudioError) {
    if isReady { return }
    if context == nil { try begin() }
    if isReady { return }
    try await withCheckedContinuation { waiters.append($0) }.get()
  }

  /// Ends the connection and everything on it with `error`.
  func reset(_ error: AudioError) {
    drop()
    fail(error)
  }

  private func begin() throws(AudioError) {
    let properties = pulse.pa_proplist_new()
    defer { pulse.pa_proplist_free(properties) }
    _ = pulse.pa_proplist_sets(properties, PA_PROP_APPLICATION_NAME, "TalkNode")
    _ = pulse.pa_proplist_sets(properties, PA_PROP_APPLICATION_ID, "talknode")
    _ = pulse.pa_proplist_sets(properties, PA_PROP_APPLICATION_ICON_NAME, "audio-input-microphone")
    let api = pulse.pa_mainloop_get_api(loop.mainloop)
    guard let pointer = pulse.pa_context_new_with_proplist(api, "TalkNode", properties) else {
      throw AudioError(.serverUnavailable, "libpulse could not make a connection.")
    }
    let context = Context(pointer, owner: self)
    self.context = context
    if pulse.pa_context_connect(pointer, address, PA_CONTEXT_NOAUTOSPAWN, nil) < 0 {
      let error = unavailable(pulse.pa_context_errno(pointer))
      reset(error)
      throw error
    }
    // Only now: a refusal during connect is its result, and nothing else can happen before this thread is back in its loop.
    // Unretained: `close` takes the callback back.
    pulse.pa_context_set_state_callback(
      pointer,
      { _, context in
        Unmanaged<Context>.fromOpaque(context!).takeUnretainedValue().owner?.assumeIsolated { $0.contextChanged() }
      }, Unmanaged.passUnretained(context).toOpaque())
  }

  private func contextChanged() {
    guard let context = context?.pointer else { return }
    switch pulse.pa_context_get_state(context) {
    case PA_CONTEXT_READY:
      isReady = true
      let waiting = waiters
      waiters = []
      for waiter in waiting { waiter.resume(returning: .success(())) }
    case PA_CONTEXT_FAILED, PA_CONTEXT_TERMINATED: reset(unavailable(pulse.pa_context_errno(context)))
    default: break
    }
  }

  private func unavailable(_ code: Int32) -> AudioError {
    AudioError(
      .serverUnavailable, "No sound server answers: \(loop.library.message(code)).",
      remedy: "systemctl --user start pipewire-pulse (or: pulseaudio --start)")
  }

  private func drop() {
    isReady = false
    guard let context else { return }
    self.context = nil
    for stream in streams.values { stream.detach() }
    context.close(pulse)
  }

  private func fail(_ error: AudioError) {
    let waiting = waiters
    waiters = []
    for waiter in waiting { waiter.resume(returning: .failure(error)) }
    let asked = questions.values
    questions = [:]
    for question in asked { question.fail(error) }
    let open = streams.values
    streams = [:]
    for stream in open { stream.end(error) }
  }

  // MARK: Streams

  /// Makes a stream of libpulse's for `stream`, which is told when the connection ends, until `forget`. Nil when there is no connection
  /// any more, or libpulse refused.
  func newStream(_ stream: PulseStream, named name: String, _ device: Device, _ format: AudioFormat) -> Handle? {
    guard isReady, let context else { return nil }
    var spec = pa_sample_spec(
      format: format.sample.pulse, rate: UInt32(format.rate), channels: UInt8(clamping: format.channels))
    var map = device.map
    guard let pointer = pulse.pa_stream_new(context.pointer, name, &spec, &map) else { return nil }
    streams[ObjectIdentifier(stream)] = stream
    return Handle(pointer: pointer)
  }

  func forget(_ stream: PulseStream) { streams[ObjectIdentifier(stream)] = nil }

  /// The number of the connection's last error.
  var lastError: Int32 { context.map { pulse.pa_context_errno($0.pointer) } ?? connectionTerminated }

  // MARK: Questions

  func server() async throws(AudioError) -> Server {
    let found: [Server] = try await ask { pulse, context, question in
      pulse.pa_context_get_server_info(
        context,
        { context, info, user in
          let question = Question<Server>.from(user)
          guard let info = info?.pointee else { return question.fail(nothingSaid) }
          question.items = [
            Server(
              name: text(info.server_name) ?? "a sound server", version: text(info.server_version) ?? "",
              address: "", defaultSource: text(info.default_source_name), defaultSink: text(info.default_sink_name))
          ]
          question.finish()
        }, question)
    }
    guard var server = found.first else { throw nothingSaid }
    server.address = context.flatMap { pulse.pa_context_get_server($0.pointer) }.map { String(cString: $0) } ?? ""
    return server
  }

  /// One source, or all of them with nil. Empty when there is none of that name.
  func sources(_ name: String?) async throws(AudioError) -> [Device] {
    try await ask { pulse, context, question in
      let take: pa_source_info_cb_t = { _, info, end, user in
        Question<Device>.from(user).take(info, end) { sourceDevice($0) }
      }
      return name.map { pulse.pa_context_get_source_info_by_name(context, $0, take, question) }
        ?? pulse.pa_context_get_source_info_list(context, take, question)
    }
  }

  /// One sink, or all of them with nil. Empty when there is none of that name.
  func sinks(_ name: String?) async throws(AudioError) -> [Device] {
    try await ask { pulse, context, question in
      let take: pa_sink_info_cb_t = { _, info, end, user in
        Question<Device>.from(user).take(info, end) { sinkDevice($0) }
      }
      return name.map { pulse.pa_context_get_sink_info_by_name(context, $0, take, question) }
        ?? pulse.pa_context_get_sink_info_list(context, take, question)
    }
  }

  private func ask<Item: Sendable>(
    _ start: (cpulse, OpaquePointer, UnsafeMutableRawPointer) -> OpaquePointer?
  ) async throws(AudioError) -> [Item] {
    guard isReady, let context = context?.pointer else { throw unavailable(connectionTerminated) }
    lastQuestion += 1
    let number = lastQuestion
    let result: Result<[Item], AudioError> = await withCheckedContinuation { continuation in
      let question = Question<Item> { continuation.resume(returning: $0) }
      // The dictionary keeps it alive for libpulse, which makes no callback any more when the connection is gone.
      questions[number] = question
      guard let operation = start(pulse, context, Unmanaged.passUnretained(question).toOpaque()) else {
        return question.fail(unavailable(pulse.pa_context_errno(context)))
      }
      pulse.pa_operation_unref(operation)
    }
    questions[number] = nil
    return try result.get()
  }
}

/// `PA_ERR_CONNECTIONTERMINATED` as the functions take it.
private let connectionTerminated = Int32(PA_ERR_CONNECTIONTERMINATED.rawValue)

private let nothingSaid = AudioError(.serverUnavailable, "The sound server gave no answer.")

/// libpulse's side of a connection, and its way back to ours, which may be gone.
// @unchecked Sendable: used on libpulse's loop only.
private final class Context: @unchecked Sendable {
  let pointer: OpaquePointer
  private(set) weak var owner: PulseConnection?

  init(_ pointer: OpaquePointer, owner: PulseConnection) {
    self.pointer = pointer
    self.owner = owner
  }

  func close(_ pulse: cpulse) {
    pulse.pa_context_set_state_callback(pointer, nil, nil)
    pulse.pa_context_disconnect(pointer)
    pulse.pa_context_unref(pointer)
  }
}

private protocol AnyQuestion: AnyObject {
  func fail(_ error: AudioError)
}

/// One query to the server and what has been answered so far. Lives on the loop's thread.
private final class Question<Item: Sendable>: AnyQuestion {
  var items: [Item] = []
  private var done: ((Result<[Item], AudioError>) -> Void)?

  init(_ done: @escaping (Result<[Item], AudioError>) -> Void) { self.done = done }

  static func from(_ user: UnsafeMutableRawPointer?) -> Question<Item> {
    Unmanaged<Question<Item>>.fromOpaque(user!).takeUnretainedValue()
  }

  /// libpulse's way with lists: an item, or a positive end, or a negative one for "no such entity".
  func take<Info>(_ info: UnsafePointer<Info>?, _ end: Int32, _ item: (Info) -> Item?) {
    if end != 0 { return finish() }
    if let info, let item = item(info.pointee) { items.append(item) }
  }

  func finish() { answer(.success(items)) }
  func fail(_ error: AudioError) { answer(.failure(error)) }

  private func answer(_ result: Result<[Item], AudioError>) {
    let done = done
    self.done = nil
    done?(result)
  }
}

func text(_ pointer: UnsafePointer<CChar>?) -> String? {
  guard let pointer, pointer.pointee != 0 else { return nil }
  return String(cString: pointer)
}
