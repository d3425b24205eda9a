import Camera
import Glibc
import System
import TestSupport
import Testing

/// What becomes of a clip when the encoder, or who uses it, fails.
@Suite("The encoder's process in trouble") struct TroubleTests {
  let loop = EventLoop(name: "encoder trouble")
  let folder = TemporaryFolder()
  private let format = ClipFormat(
    width: 320, height: 180, fps: 25, audio: nil, maxBytes: 10_000_000, duration: .seconds(3))

  /// The encoder that belongs to a writer of ours; each has one child by that name.
  private func encoder(_ writer: EncoderProcess) async throws -> Int32 { try #require(await writer.processID) }

  private func isRunning(_ process: Int32) -> Bool {
    guard let state = Files.text("/proc/\(process)/stat") else { return false }
    return !state.contains(") Z ")
  }

  private func begun(_ limits: EncoderProcess.Limits = .init()) async throws -> (EncoderProcess, Int32) {
    let writer = EncoderProcess(limits: limits, loop: loop)
    try await writer.begin(format)
    for step in 0..<3 { try await writer.write(frame: ClipTests.frame(60, step, at: Double(step) * 0.04)) }
    return (writer, try await encoder(writer))
  }

  @Test("killed in the middle of a clip, it is an error that says so, and not a hang")
  func killed() async throws {
    let (writer, process) = try await begun()
    kill(process, SIGKILL)
    let error = await #expect(throws: CameraError.self) {
      for step in 3... { try await writer.write(frame: ClipTests.frame(60, step, at: Double(step) * 0.04)) }
    }
    #expect(error?.code == .encodingFailed)
    #expect(error?.summary.contains("signal 9") == true)
    await #expect(throws: CameraError.self) { try await writer.finish() }
    loop.stop()
  }

  @Test("killed before the end is asked for, it is the same error")
  func killedAtEnd() async throws {
    let (writer, process) = try await begun()
    kill(process, SIGKILL)
    #expect(await eventually { !isRunning(process) })
    let error = await #expect(throws: CameraError.self) { try await writer.finish() }
    #expect(error?.code == .encodingFailed)
    loop.stop()
  }

  @Test("one that hangs is ended at the deadline")
  func hung() async throws {
    let (writer, process) = try await begun(.init(step: .milliseconds(500), finish: .milliseconds(500)))
    kill(process, SIGSTOP)
    let error = await #expect(throws: CameraError.self) {
      for step in 3... { try await writer.write(frame: ClipTests.frame(60, step, at: Double(step) * 0.04)) }
    }
    #expect(error?.code == .encodingFailed)
    #expect(await eventually { !isRunning(process) })
    loop.stop()
  }

  @Test("one that hangs at the end is ended too")
  func hungAtEnd() async throws {
    let (writer, process) = try await begun(.init(finish: .milliseconds(300)))
    kill(process, SIGSTOP)
    let error = await #expect(throws: CameraError.self) { try await writer.finish() }
    #expect(error?.code == .encodingFailed)
    #expect(await eventually { !isRunning(process) })
    loop.stop()
  }

  @Test("a clip that is not wanted any more leaves no process")
  func cancelled() async throws {
    let (writer, process) = try await begun()
    await writer.cancel()
    #expect(await eventually { !isRunning(process) })
    let error = await #expect(throws: CameraError.self) { try await writer.finish() }
    #expect(error?.code == .stopped)
    loop.stop()
  }

  @Test("one that is cancelled before it begins, or while it starts, throws and leaves no process")
  func cancelledEarly() async throws {
    let before = EncoderProcess(loop: loop)
    await before.cancel()
    let error = await #expect(throws: CameraError.self) { try await before.begin(format) }
    #expect(error?.code == .stopped)
    // One that never answers: whatever is left of it waits for ever.
    try folder.write("silent", "#!/bin/sh\necho $$ >> \(folder("started"))\nexec sleep 1000\n")
    chmod(folder("silent"), 0o755)
    for round in 0..<20 {
      let writer = EncoderProcess(program: folder("silent"), loop: loop)
      let beginning = Task { () -> CameraError? in
        do throws(CameraError) {
          try await writer.begin(format)
          return nil
        } catch {
          return error
        }
      }
      for _ in 0..<round { await Task.yield() }
      await writer.cancel()
      #expect(await beginning.value?.code == .stopped)
      #expect(await writer.processID == nil)
    }
    let started = (Files.text(folder("started")) ?? "").split(separator: "\n").compactMap { Int32($0) }
    #expect(await eventually { started.allSatisfy { !isRunning($0) } })
    loop.stop()
  }

  @Test("frames that do not grow in time, and a clip without any, are refused by name")
  func badInput() async throws {
    let (writer, _) = try await begun()
    let error = await #expect(throws: CameraError.self) {
      for _ in 0... { try await writer.write(frame: ClipTests.frame(60, 1, at: 0.01)) }
    }
    #expect(error?.summary.contains("not later") == true)
    let empty = EncoderProcess(loop: loop)
    try await empty.begin(format)
    let none = await #expect(throws: CameraError.self) { try await empty.finish() }
    #expect(none?.summary.contains("no frame") == true)
    loop.stop()
  }

  @Test("where it is not installed, or its libraries are missing, the person is told what to install")
  func missing() async throws {
    let absent = EncoderProcess(program: folder("talknode-encoder"), loop: loop)
    let error = await #expect(throws: CameraError.self) { try await absent.begin(format) }
    #expect(error?.code == .missing && error?.remedy != nil)

    // As ld.so ends a program whose library is not there.
    try folder.write("broken", "#!/bin/sh\necho 'error while loading shared libraries: libavcodec.so' >&2\nexit 127\n")
    chmod(folder("broken"), 0o755)
    let broken = EncoderProcess(program: folder("broken"), loop: loop)
    let reason = await #expect(throws: CameraError.self) { try await broken.begin(format) }
    #expect(reason?.code == .missing && reason?.summary.contains("libavcodec") == true)
    loop.stop()
  }

  @Test("answers that are none end the clip with an error")
  func babbles() async throws {
    try folder.write("babble", "#!/bin/sh\ncat /dev/zero\n")
    chmod(folder("babble"), 0o755)
    let writer = EncoderProcess(program: folder("babble"), loop: loop)
    let error = await #expect(throws: CameraError.self) { try await writer.begin(format) }
    #expect(error?.code == .encodingFailed)
    loop.stop()
  }
}
