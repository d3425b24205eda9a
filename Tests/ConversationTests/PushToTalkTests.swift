import TestSupport
import Testing

@testable import Conversation

@Suite("Push-to-talk: the state machine")
struct PushToTalkTests {
  typealias Machine = PushToTalk

  private func machine(after events: Machine.Event...) -> Machine {
    var machine = Machine()
    for event in events { _ = machine.on(event) }
    return machine
  }
  private func capturing(once: Bool = false, owner: Machine.Owner = .person) -> Machine {
    machine(after: once ? .once(1, owner, id: "A") : .start(1, owner, id: "A"), .microphoneReady("A"))
  }
  private func recognising() -> Machine {
    machine(after: .start(1, .person, id: "A"), .microphoneReady("A"), .stop(2, id: "x"))
  }
  private func answering(speaking: Bool = false) -> Machine {
    var machine = recognising()
    _ = machine.on(.recognised("A", "hello", .operatorSocket))
    if speaking { _ = machine.on(.speaking("A")) }
    return machine
  }

  // MARK: start

  @Test("a start opens the microphone, silences what is spoken, and is answered when sound can come")
  func start() {
    var machine = Machine()
    #expect(machine.on(.start(1, .person, id: "A")) == [.hush, .openMicrophone("A", .person)])
    #expect(machine.on(.microphoneReady("A")) == [.startLimit("A", isOnce: false), .answer(1, .capturing("A"))])
  }

  @Test("a second start is not a second microphone")
  func idempotent() {
    var machine = capturing()
    #expect(machine.on(.start(2, .person, id: "B")) == [.answer(2, .capturing("A"))])
  }

  @Test("starts during preparation wait, and get the one capture")
  func queuedStarts() {
    var machine = machine(after: .start(1, .person, id: "A"))
    #expect(machine.on(.start(2, .person, id: "B")) == [])
    #expect(machine.on(.start(3, .gateway("g"), id: "C")) == [])
    #expect(
      machine.on(.microphoneReady("A")) == [
        .startLimit("A", isOnce: false), .answer(1, .capturing("A")), .answer(2, .capturing("A")),
        .answer(3, .capturing("A")),
      ])
  }

  @Test("when the microphone can't be had, the next start in the queue tries again")
  func failedPreparation() {
    var machine = machine(after: .start(1, .person, id: "A"), .start(2, .person, id: "B"))
    let failure = Machine.Failure.unavailable(code: "MIC_BUSY", summary: "The microphone is in use.", remedy: nil)
    #expect(
      machine.on(.microphoneFailed("A", failure)) == [
        .answer(1, .failed(failure)), .hush, .openMicrophone("B", .person),
      ])
    #expect(machine.on(.microphoneFailed("B", failure)) == [.answer(2, .failed(failure))])
    #expect(machine.phase == .idle)
  }

  @Test("the queue of starts has a bound; one more is busy")
  func queueBound() {
    var machine = machine(after: .start(0, .person, id: "A"))
    for request in 1...Machine.queueLimit { #expect(machine.on(.start(request, .person, id: "\(request)")) == []) }
    #expect(machine.on(.start(99, .person, id: "Z")) == [.answer(99, .failed(.busy))])
  }

  @Test("a start while the transcript is recognised or the agent thinks is PTT_BUSY")
  func startBusy() {
    var machine = recognising()
    #expect(machine.on(.start(9, .person, id: "B")) == [.answer(9, .failed(.busy))])
    machine = answering()
    #expect(machine.on(.start(9, .person, id: "B")) == [.answer(9, .failed(.busy))])
  }

  @Test("a start while the answer is spoken silences it and captures")
  func startInterrupts() {
    var machine = answering(speaking: true)
    #expect(machine.on(.start(9, .person, id: "B")) == [.hush, .openMicrophone("B", .person)])
    #expect(machine.on(.answered("A")) == [])
    #expect(machine.on(.microphoneReady("B")).contains(.answer(9, .capturing("B"))))
  }

  // MARK: stop and cancel

  @Test("stop or cancel before the microphone is there fails every start before it", arguments: [true, false])
  func epoch(isStop: Bool) {
    var machine = machine(after: .start(1, .person, id: "A"), .start(2, .person, id: "B"))
    let actions = machine.on(isStop ? .stop(3, id: "x") : .cancel(3, id: "x"))
    #expect(
      actions == [
        .discard("A"), .answer(1, .failed(.cancelled)), .answer(2, .failed(.cancelled)),
        .answer(3, .ended("A", transcript: nil, isStop ? .idle : .cancelled)),
      ])
    #expect(machine.phase == .idle)
    #expect(machine.on(.microphoneReady("A")) == [])
  }

  @Test("nothing open: stop and cancel answer idle with a fresh id")
  func idle() {
    var machine = Machine()
    #expect(machine.on(.stop(1, id: "x")) == [.answer(1, .ended("x", transcript: nil, .idle))])
    #expect(machine.on(.cancel(2, id: "y")) == [.answer(2, .ended("y", transcript: nil, .idle))])
  }

  @Test("stop closes the microphone and is answered queued before the agent is told")
  func stopQueued() {
    var machine = capturing()
    #expect(machine.on(.stop(2, id: "x")) == [.stopLimit("A"), .finish("A")])
    #expect(
      machine.on(.recognised("A", "turn on the lights", .operatorSocket)) == [
        .answer(2, .ended("A", transcript: "turn on the lights", .queued)),
        .deliver("A", "turn on the lights", .operatorSocket),
      ])
    #expect(machine.on(.answered("A")) == [])
    #expect(machine.phase == .idle)
  }

  @Test("two stops share one result")
  func sharedStop() {
    var machine = recognising()
    #expect(machine.on(.stop(3, id: "y")) == [])
    #expect(
      machine.on(.recognised("A", nil, .operatorSocket)) == [
        .answer(2, .ended("A", transcript: nil, .empty)), .answer(3, .ended("A", transcript: nil, .empty)),
      ])
  }

  @Test("without any route the transcript is kept and answered offline")
  func offline() {
    var machine = recognising()
    #expect(
      machine.on(.recognised("A", "hello", .none)) == [
        .keep("A", "hello"), .answer(2, .ended("A", transcript: "hello", .offline)),
      ])
    #expect(machine.phase == .idle)
  }

  @Test("with only the node socket the reduced path delivers")
  func reduced() {
    var machine = recognising()
    #expect(machine.on(.recognised("A", "hello", .nodeSocket)).contains(.deliver("A", "hello", .nodeSocket)))
  }

  @Test("cancel discards what was heard; the stop that waited gets the same answer")
  func cancelWhileRecognising() {
    var machine = recognising()
    let cancelled = Machine.Answer.ended("A", transcript: nil, .cancelled)
    #expect(
      machine.on(.cancel(3, id: "y")) == [.stopLimit("A"), .discard("A"), .answer(2, cancelled), .answer(3, cancelled)])
    #expect(machine.on(.recognised("A", "late", .operatorSocket)) == [])
  }

  @Test("a microphone that is lost ends the capture but not the words")
  func microphoneLost() {
    var machine = capturing()
    #expect(machine.on(.microphoneEnded("A")) == [.stopLimit("A"), .finish("A")])
    #expect(machine.on(.recognised("A", "half a", .operatorSocket)) == [.deliver("A", "half a", .operatorSocket)])
  }

  // MARK: once

  @Test("once ends on a final result, on silence, at the limit, and by stop", arguments: 0..<4)
  func onceEnds(how: Int) {
    var machine = capturing(once: true)
    let event: Machine.Event = [.utteranceFinal("A"), .silence("A"), .limit("A"), .stop(2, id: "x")][how]
    #expect(machine.on(event) == [.stopLimit("A"), .finish("A")])
    let queued = Machine.Answer.ended("A", transcript: "hi", .queued)
    let answers = how == 3 ? [Machine.Action.answer(1, queued), .answer(2, queued)] : [.answer(1, queued)]
    #expect(machine.on(.recognised("A", "hi", .operatorSocket)) == answers + [.deliver("A", "hi", .operatorSocket)])
  }

  @Test("a held key is not ended by silence or by a final result")
  func holdGoesOn() {
    var machine = capturing()
    #expect(machine.on(.silence("A")) == [])
    #expect(machine.on(.utteranceFinal("A")) == [])
    #expect(machine.on(.limit("A")) == [.stopLimit("A"), .finish("A")])
  }

  @Test("once while anything is open is busy with the id of what is open, and no error")
  func onceBusy() {
    let busy = [Machine.Action.answer(9, .ended("A", transcript: nil, .busy))]
    var all = [machine(after: .start(1, .person, id: "A")), capturing(), recognising(), answering()]
    for index in all.indices { #expect(all[index].on(.once(9, .person, id: "B")) == busy) }
  }

  @Test("once cancelled during preparation is an ended capture, not an error")
  func onceCancelledEarly() {
    var machine = machine(after: .once(1, .person, id: "A"))
    #expect(machine.on(.cancel(2, id: "x")).contains(.answer(1, .ended("A", transcript: nil, .cancelled))))
  }

  // MARK: owners

  @Test("an agent's capture ends with its gateway; a person's goes on")
  func ownerGone() {
    var agent = capturing(owner: .gateway("g"))
    #expect(agent.on(.gatewayGone("g")) == [.stopLimit("A"), .discard("A")])
    #expect(agent.phase == .idle)
    var person = capturing()
    #expect(person.on(.gatewayGone("g")) == [])
    var other = capturing(owner: .gateway("h"))
    #expect(other.on(.gatewayGone("g")) == [])
  }

  @Test(
    "switched off for agents, their captures end, open or being opened; a person's goes on, and what was said is delivered"
  )
  func agentsRefused() {
    var open = capturing(once: true, owner: .gateway("g"))
    let cancelled = Machine.Answer.ended("A", transcript: nil, .cancelled)
    #expect(open.on(.agentsRefused) == [.stopLimit("A"), .discard("A"), .answer(1, cancelled)])
    #expect(open.phase == .idle)
    var preparing = machine(after: .start(1, .gateway("g"), id: "A"), .start(2, .gateway("h"), id: "B"))
    _ = preparing.on(.start(3, .person, id: "C"))
    #expect(
      preparing.on(.agentsRefused) == [
        .answer(2, .failed(.cancelled)), .discard("A"), .answer(1, .failed(.cancelled)), .hush,
        .openMicrophone("C", .person),
      ])
    var person = machine(after: .start(1, .person, id: "A"), .start(2, .gateway("g"), id: "B"))
    #expect(person.on(.agentsRefused) == [.answer(2, .failed(.cancelled))])
    person = capturing()
    #expect(person.on(.agentsRefused) == [])
    var said = capturing(owner: .gateway("g"))
    _ = said.on(.stop(2, id: "x"))
    #expect(said.on(.agentsRefused) == [])
  }

  @Test("a once whose invoke is cancelled is discarded; words already spoken to the end are delivered")
  func abandonedOnce() {
    var machine = capturing(once: true, owner: .gateway("g"))
    #expect(machine.on(.abandoned(1)) == [.stopLimit("A"), .discard("A")])
    machine = capturing(once: true)
    _ = machine.on(.utteranceFinal("A"))
    #expect(machine.on(.abandoned(1)) == [])
    #expect(machine.on(.recognised("A", "hi", .operatorSocket)) == [.deliver("A", "hi", .operatorSocket)])
  }

  @Test("events of a capture that is over change nothing")
  func staleEvents() {
    for phase in [Machine(), capturing(), recognising(), answering()] {
      var machine = phase
      let stale: [Machine.Event] = [
        .microphoneReady("old"), .microphoneFailed("old", .busy), .microphoneEnded("old"), .utteranceFinal("old"),
        .silence("old"), .limit("old"), .recognised("old", "x", .none), .speaking("old"), .answered("old"),
        .gatewayGone("old"), .abandoned(77),
      ]
      for event in stale { #expect(machine.on(event) == []) }
      #expect(machine == phase)
    }
  }

  // MARK: invariants

  @Test(
    "ten thousand random sequences: one owner, no lost word, every request answered once, no capture without its owner")
  func invariants() {
    let seed = UInt64.random(in: 0 ... .max)
    print("push-to-talk seed \(seed)")
    var random = SeededRandom(seed: seed)
    var asked = 0
    for _ in 0..<10_000 {
      let steps = random.below(40)
      var walk = Walk(random: random)
      for _ in 0..<steps { walk.step() }
      walk.drain()
      random = walk.random
      asked += walk.asked
      #expect(walk.complaints == [], "seed \(seed)")
      if !walk.complaints.isEmpty { return }
    }
    #expect(asked > 50_000, "the walk goes nowhere")
  }
}

/// A world around the machine that breaks no rule itself, and complains when the machine does.
private struct Walk {
  var machine = PushToTalk()
  var random: SeededRandom
  var complaints: [String] = []
  private var nextRequest = 0
  /// How many requests were made.
  var asked: Int { nextRequest }
  private var nextCapture = 0
  private var unanswered: Set<Int> = []
  private var abandoned: Set<Int> = []
  private var openMicrophone: String?
  private var owners: [String: PushToTalk.Owner] = [:]
  private var preparing: String?
  private var recognising: String?
  private var answering: String?
  private var words: [String: String] = [:]
  private var handedOver: Set<String> = []

  init(random: SeededRandom) { self.random = random }

  mutating func step() {
    nextCapture += 1
    let id = "c\(nextCapture)"
    let owner: PushToTalk.Owner = random.below(3) == 0 ? .gateway("g\(random.below(2))") : .person
    switch random.below(16) {
    case 0, 1, 2: ask { .start($0, owner, id: id) }
    case 3, 4: ask { .once($0, owner, id: id) }
    case 5, 6: ask { .stop($0, id: id) }
    case 7: ask { .cancel($0, id: id) }
    case 8: if let request = unanswered.min() { abandon(request) }
    case 9: if let preparing { tell(.microphoneReady(preparing)) }
    case 10: if let preparing { tell(.microphoneFailed(preparing, .busy)) }
    case 11:
      if let openMicrophone {
        tell(
          [
            .silence(openMicrophone), .utteranceFinal(openMicrophone), .limit(openMicrophone),
            .microphoneEnded(openMicrophone),
          ][random.below(4)])
      }
    case 12: recognise()
    case 13: if let answering { tell(random.below(2) == 0 ? .speaking(answering) : .answered(answering)) }
    case 14: tell(.gatewayGone("g\(random.below(2))"))
    default: tell(.agentsRefused)
    }
  }

  /// Lets everything that is open come to its end.
  mutating func drain() {
    for _ in 0..<40 {
      if let preparing { tell(.microphoneReady(preparing)) }
      if openMicrophone != nil && preparing == nil { ask { .stop($0, id: "end") } }
      recognise()
      if let answering { tell(.answered(answering)) }
    }
    if !unanswered.isEmpty { complaints.append("never answered: \(unanswered.sorted())") }
    if machine.phase != .idle { complaints.append("ends in \(machine.phase)") }
    if openMicrophone != nil { complaints.append("the microphone stays open") }
    for (id, _) in words where !handedOver.contains(id) { complaints.append("the words of \(id) are lost") }
  }

  private mutating func ask(_ event: (Int) -> PushToTalk.Event) {
    nextRequest += 1
    unanswered.insert(nextRequest)
    tell(event(nextRequest))
  }

  private mutating func abandon(_ request: Int) {
    abandoned.insert(request)
    unanswered.remove(request)
    tell(.abandoned(request))
  }

  private mutating func recognise() {
    guard let id = recognising else { return }
    recognising = nil
    let text = random.below(3) == 0 ? nil : "words"
    if let text { words[id] = text }
    tell(.recognised(id, text, [.operatorSocket, .nodeSocket, .none][random.below(3)]))
  }

  private mutating func tell(_ event: PushToTalk.Event) {
    if case .microphoneReady(let id) = event, preparing == id { preparing = nil }
    if case .microphoneFailed(let id, _) = event, preparing == id {
      preparing = nil
      openMicrophone = nil
    }
    for action in machine.on(event) { perform(action) }
    if case .gatewayGone(let gateway) = event, let openMicrophone, owners[openMicrophone] == .gateway(gateway) {
      complaints.append("\(openMicrophone) goes on without its gateway")
    }
    if event == .agentsRefused, let openMicrophone, owners[openMicrophone] != .person {
      complaints.append("\(openMicrophone) goes on though it is switched off")
    }
    if machine.phase == .idle && openMicrophone != nil { complaints.append("idle with an open microphone") }
  }

  private mutating func perform(_ action: PushToTalk.Action) {
    switch action {
    case .openMicrophone(let id, let owner):
      if let openMicrophone { complaints.append("\(id) opens a second microphone beside \(openMicrophone)") }
      openMicrophone = id
      preparing = id
      owners[id] = owner
      answering = nil
    case .discard(let id):
      if openMicrophone == id { openMicrophone = nil }
      if preparing == id { preparing = nil }
      if recognising == id { recognising = nil }
    case .finish(let id):
      if openMicrophone != id { complaints.append("\(id) is finished but not open") }
      openMicrophone = nil
      recognising = id
    case .deliver(let id, let text, let route):
      if words[id] != text || route == .none { complaints.append("\(id) delivers what was not said") }
      if !handedOver.insert(id).inserted { complaints.append("\(id) is handed over twice") }
      answering = id
    case .keep(let id, let text):
      if words[id] != text { complaints.append("\(id) keeps what was not said") }
      if !handedOver.insert(id).inserted { complaints.append("\(id) is handed over twice") }
    case .answer(let request, _):
      if abandoned.contains(request) {
        complaints.append("\(request) is answered after it has gone")
      } else if unanswered.remove(request) == nil {
        complaints.append("\(request) is answered twice")
      }
    case .hush, .startLimit, .stopLimit: break
    }
  }
}
