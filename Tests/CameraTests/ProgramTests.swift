import Glibc
import System
import TestSupport
import Testing

@testable import Camera

/// Cameras that are programs.
@Suite struct ProgramTests {
  private func cameras(_ still: [String], video: [String] = [], _ loop: EventLoop) -> Cameras {
    var settings = CameraSettings()
    settings.sources = [.init(name: "pi", kind: .program(still: still, video: video))]
    return Cameras(settings: settings, loop: loop, places: CameraPlaces(dev: "/nonexistent"))
  }

  @Test("a program's JPEG is the picture, a run for each")
  func picture() async throws {
    let loop = EventLoop(name: "program")
    defer { loop.stop() }
    let cameras = cameras(["cat", Sample.path("whole.jpg")], loop)
    #expect(try await cameras.snap(SnapRequest()).bytes == (try Sample.bytes("whole.jpg")))
    #expect(try await cameras.snap(SnapRequest(limits: Picture.Limits(width: 100))).size == Size(100, 76))
    await cameras.close()
  }

  @Test(
    "one that fails, writes no JPEG or is not there says so in its own words",
    arguments: [
      (["sh", "-c", "echo no sensor >&2; exit 3"], "exit code 3: no sensor"), (["echo", "hello"], "it wrote no JPEG"),
      (["/nonexistent/rpicam-still"], "No such file"), (["cat", "/dev/zero"], "it wrote over"),
    ])
  func failing(command: [String], expected: String) async throws {
    let loop = EventLoop(name: "program")
    defer { loop.stop() }
    let cameras = cameras(command, loop)
    let error = await failure { () throws(CameraError) in try await cameras.snap(SnapRequest()) }
    #expect(error?.code == .sourceFailed)
    #expect(error?.summary.contains(expected) == true, "\(error?.summary ?? "")")
    await cameras.close()
  }

  @Test("one that hangs is ended with the time that was given")
  func hanging() async throws {
    let loop = EventLoop(name: "program")
    defer { loop.stop() }
    let folder = TemporaryFolder()
    let cameras = cameras(["sh", "-c", "echo $$ > \(folder("pid")); exec sleep 60"], loop)
    let error = await failure { () throws(CameraError) in
      try await cameras.snap(SnapRequest(limit: .milliseconds(800)))
    }
    #expect(error?.code == .timedOut)
    let pid = try #require(Files.text(folder("pid")).flatMap { Int32($0.trimmed) })
    #expect(await eventually { kill(pid, 0) != 0 })
    await cameras.close()
  }

  @Test("a picture is one run of the program, and two who ask for more get a run more")
  func oneRun() async throws {
    let loop = EventLoop(name: "program")
    defer { loop.stop() }
    let folder = TemporaryFolder()
    let cameras = cameras(["sh", "-c", "echo run >> \(folder("runs")); cat \(Sample.path("whole.jpg"))"], loop)
    func runs() -> Int { Files.text(folder("runs"))?.split(separator: "\n").count ?? 0 }
    for round in 1...3 {
      _ = try await cameras.snap(SnapRequest())
      #expect(runs() == round)
    }
    let device = try await cameras.device(nil)
    let one = try await cameras.frames(of: device, CaptureWish())
    let two = try await cameras.frames(of: device, CaptureWish())
    #expect(try await one.next()?.sequence == 0)
    let before = runs()
    async let next = two.next()
    async let another = one.next()
    #expect(try await another != nil)
    #expect(try await next != nil)
    #expect((before...(before + 2)).contains(runs()))
    one.end()
    two.end()
    await cameras.close()
  }

  @Test("one that has written its picture and does not end has done its part, and is ended")
  func lingering() async throws {
    let loop = EventLoop(name: "program")
    defer { loop.stop() }
    let folder = TemporaryFolder()
    let tail = "echo $$ > \(folder("pid")); exec >&- 2>&-; trap '' TERM; while :; do sleep 1; done"
    let script = "cat \(Sample.path("whole.jpg")); \(tail)"
    func hasEnded() async throws -> Bool {
      let pid = try #require(Files.text(folder("pid")).flatMap { Int32($0.trimmed) })
      return await eventually { kill(pid, 0) != 0 }
    }
    let still = cameras(["sh", "-c", script], loop)
    #expect(try await still.snap(SnapRequest()).bytes == (try Sample.bytes("whole.jpg")))
    #expect(try await hasEnded())
    await still.close()
    let film = cameras(["true"], video: ["sh", "-c", script], loop)
    let frames = try await film.frames(of: try await film.device(nil), CaptureWish(.motion))
    _ = try await frames.next()
    let error = await failure { () throws(CameraError) in try await frames.next() }
    #expect(error?.code == .sourceFailed && error?.summary.contains("closed its output") == true)
    #expect(try await hasEnded())
    // One that closes its output and is given up at that very moment leaves nothing either.
    let empty = cameras(["sh", "-c", tail], loop)
    _ = await failure { () throws(CameraError) in try await empty.snap(SnapRequest(limit: .milliseconds(500))) }
    await empty.close()
    #expect(try await hasEnded())
    await film.close()
  }

  @Test("of a camera that only one program can have, a picture is taken from the film, and a film waits for a picture")
  func exclusive() async throws {
    let loop = EventLoop(name: "program")
    defer { loop.stop() }
    let folder = TemporaryFolder()
    // As libcamera does: the second to open it is refused. Only the shell itself holds it, so that it is free when that has ended.
    func holding(_ rest: String) -> [String] {
      ["sh", "-c", "exec 9>\(folder("lock")); flock -n 9 || exit 1; touch \(folder("held")); \(rest)"]
    }
    let cameras = cameras(
      holding("while ! [ -e \(folder("go")) ]; do sleep 0.05 9>&-; done; cat \(Sample.path("whole.jpg")) 9>&-"),
      video: holding("while :; do cat \(Sample.path("room.mjpeg")) 9>&-; sleep 0.05 9>&-; done"), loop)
    let device = try await cameras.device(nil)
    async let picture = cameras.snap(SnapRequest())
    #expect(await eventually { Files.exists(folder("held")) })
    async let filming = cameras.frames(of: device, CaptureWish(.motion))
    try folder.write("go", "")
    #expect(try await picture.size == Size(320, 240))
    let film = try await filming
    #expect(try await film.next()?.size == Size(640, 360))
    #expect(try await cameras.snap(SnapRequest()).size == Size(640, 360))
    film.end()
    #expect(try await cameras.snap(SnapRequest()).size == Size(320, 240))
    await cameras.close()
  }

  @Test("a film is a stream of JPEGs of another program; without one there is none")
  func film() async throws {
    let loop = EventLoop(name: "program")
    defer { loop.stop() }
    let filming = cameras(["true"], video: ["sh", "-c", "cat \(Sample.path("room.mjpeg")); exec sleep 60"], loop)
    let device = try await filming.device(nil)
    let frames = try await filming.frames(of: device, CaptureWish(.motion))
    #expect(frames.format.size == Size(640, 360))
    for _ in 0..<4 { _ = try #require(try await frames.next()) }
    frames.end()
    await filming.close()
    let still = cameras(["cat", Sample.path("whole.jpg")], loop)
    let error = await failure { () throws(CameraError) in
      try await still.frames(of: try await still.device(nil), CaptureWish(.motion))
    }
    #expect(error?.summary.contains("takes pictures only") == true)
    await still.close()
  }
}
