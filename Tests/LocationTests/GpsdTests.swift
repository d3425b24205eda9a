import System
import TestSupport
import Testing

@testable import Location

/// Real gpsd, fed by gpsfake.
@Suite struct GpsdTests {
  @Test("a drive: where it is, how well, how fast and which way, by the receiver's own time")
  func drive() async throws {
    try await GpsdBed.with([NMEALog.text(.drive)]) { bed in
      let first = try await bed.locate()
      #expect((52.37...52.4).contains(first.latitude) && (4.895...4.93).contains(first.longitude))
      #expect(first.source == .gps && first.isPrecise && (1...100).contains(first.accuracyMeters))
      // The first report of a cycle may come before its time and its speed.
      var full: Fix?
      _ = try await eventually(within: .seconds(20)) {
        let fix = try await bed.locate()
        if !fix.isTimeFromReceipt && fix.speedMps != nil { full = fix }
        return full != nil
      }
      let fix = try #require(full)
      #expect(abs(fix.altitudeMeters! - 12.3) < 1 && abs(fix.speedMps! - 5.14) < 0.1 && fix.headingDeg == 45)
      #expect(abs(fix.timeMs - WallClock.milliseconds()) < 20_000)
      #expect(fix.latitude >= first.latitude)
    }
  }

  @Test("after the loss of its fix the old one is not served as the present one; only who allows its age gets it")
  func loss() async throws {
    try await GpsdBed.with([NMEALog.text(.loss(after: 20), epochs: 2000)]) { bed in
      let fix = try await bed.locate()
      let isLost = await eventually(within: .seconds(30)) {
        await bed.locator.refusal(within: .seconds(1))?.code == .timeout
      }
      #expect(isLost)
      let old = try await bed.locate(maxAge: .seconds(120))
      // The one may be told by the receiver's time, the other by that of receipt.
      #expect(abs(old.timeMs - fix.timeMs) < 60_000 && abs(old.latitude - fix.latitude) < 0.01)
    }
  }

  @Test("without a time from the receiver it is that of receipt, and said to be that")
  func noTime() async throws {
    try await GpsdBed.with([NMEALog.text(.noTime)]) { bed in
      let fix = try await bed.locate()
      #expect(fix.isTimeFromReceipt && abs(fix.timeMs - WallClock.milliseconds()) < 10_000)
      #expect((52.37...52.4).contains(fix.latitude))
    }
  }

  @Test("a receiver whose weeks have rolled over: the place is right, and a time of twenty years ago is not told")
  func rollover() async throws {
    try await GpsdBed.with([NMEALog.text(.rollover)]) { bed in
      let hasTime = try await eventually(within: .seconds(20)) { try await bed.locate().speedMps != nil }
      #expect(hasTime)
      let fix = try await bed.locate()
      // A gpsd that knows better has mended it; what it has not mended is not believed.
      #expect(abs(fix.timeMs - WallClock.milliseconds()) < 20_000)
    }
  }

  @Test("a fix in two dimensions has no altitude")
  func flat() async throws {
    try await GpsdBed.with([NMEALog.text(.flat)]) { bed in
      let fix = try await bed.locate()
      #expect(fix.altitudeMeters == nil && fix.source == .gps && fix.accuracyMeters > 1)
    }
  }

  @Test("of two receivers, one of which sees nothing, the other one answers, again and again")
  func twoReceivers() async throws {
    try await GpsdBed.with([NMEALog.text(.blind), NMEALog.text(.drive, shift: 1)]) { bed in
      let fix = try await bed.locate()
      #expect((53.37...53.4).contains(fix.latitude))
      for _ in 0..<5 { #expect(try await bed.locate().latitude > 53) }
      let finding = try #require(await bed.locator.findings().first)
      #expect(try finding.state.get().contains("2 receivers"), "\(finding)")
    }
  }

  @Test("who waits while gpsd is killed and started again is answered, and so is who asks after that")
  func restarted() async throws {
    try await GpsdBed.with([NMEALog.text(.blind)]) { bed in
      let port = await bed.gpsd.port
      let waiting = Task { try await bed.locate(within: .seconds(60)) }
      let isSilent = await bed.locator.refusal(within: .seconds(2))
      #expect(isSilent?.code == .timeout)
      await bed.gpsd.kill()
      try bed.folder.write("drive.nmea", NMEALog.text(.drive))
      let second = SampleGpsd(
        logs: [bed.folder("drive.nmea")], pace: .milliseconds(50), port: port, loop: bed.loop)
      try await second.start()
      let fix = try? await waiting.value
      let after = try? await bed.locate()
      await second.kill()
      #expect((52.37...52.4).contains(try #require(fix).latitude) && after != nil)
      let lost = await bed.locator.refusal(within: .seconds(2))
      #expect(lost != nil)
      let again = await bed.locator.refusal(within: .seconds(2))
      #expect(again?.code == .unavailable, "nobody listens: said at once")
    }
  }

  @Test("a gpsd that has no receiver: said at once, with what to do")
  func noReceiver() async throws {
    try await GpsdBed.with([]) { bed in
      let began = Monotonic.now()
      let refusal = try #require(await bed.locator.refusal(within: .seconds(60)))
      #expect(refusal.code == .unavailable && refusal.summary.contains("no receiver") && refusal.remedy != nil)
      #expect(Monotonic.now() - began < .seconds(30), "not at its deadline")
      let finding = try #require(await bed.locator.findings().first)
      guard case .failure(let error) = finding.state else {
        Issue.record("\(finding)")
        return
      }
      #expect(error.summary.contains("no receiver"))
    }
  }

  @Test("a follower hears each fix and what is seen of the sky; when nobody asks any more, the connection is closed")
  func follows() async throws {
    try await GpsdBed.with([NMEALog.text(.drive)], linger: .milliseconds(200)) { bed in
      let news = await bed.locator.follow(.gpsd)
      let fixes = try await withDeadline(.seconds(30)) {
        var fixes: [Fix] = []
        for await piece in news {
          if case .fix(let fix, _) = piece { fixes.append(fix) }
          if fixes.count == 8 { break }
        }
        return fixes
      }
      #expect(fixes.count == 8 && fixes.last!.latitude > fixes.first!.latitude)
    }
  }
}
