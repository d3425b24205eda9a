import Foundation
import System
import TestSupport
import Testing

@testable import Health

@Suite("the samples") struct SampleTests {
  struct Answers: Decodable {
    struct Figures: Decodable {
      var stepCount: Int?
      var sleepMinutes: Int?
      var restingHeartRate: Double?
      var workoutCount: Int?
      var workoutMinutes: Int?
    }
    let day: String
    let zone: String
    let answers: [String: Figures]
  }

  static let answers: Answers = {
    let data = try! Data(contentsOf: URL(fileURLWithPath: SampleFolder.path + "/answers.json"))
    return try! JSONDecoder().decode(Answers.self, from: data)
  }()

  private func check(_ name: String, in folder: String) throws {
    let figures = try #require(Self.answers.answers[name])
    let expected = DaySummary(
      stepCount: figures.stepCount, sleepMinutes: figures.sleepMinutes, restingHeartRate: figures.restingHeartRate,
      workoutCount: figures.workoutCount, workoutMinutes: figures.workoutMinutes)
    let window = day(Self.answers.day)
    let files = HealthFiles(paths: [folder + "/" + name], zone: berlin)
    let evidence = try files.read(span: window.start..<window.end, now: at("2026-06-01 00:00"))
    let reckoning = DayReckoning(window, evidence)
    #expect(reckoning.summary == expected, "\(name): \(reckoning.explanation) \(evidence.flatMap(\.remarks))")
  }

  @Test("every format's sample comes to what was worked out by hand", arguments: answers.answers.keys.sorted())
  func known(_ name: String) throws { try check(name, in: SampleFolder.path) }

  @Test("their generator makes them again, to the same answers")
  func generator() throws {
    let folder = TemporaryFolder()
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments = ["python3", SampleFolder.path + "/make.py", folder.path]
    try process.run()
    process.waitUntilExit()
    #expect(process.terminationStatus == 0)
    for name in Self.answers.answers.keys.sorted() { try check(name, in: folder.path) }
  }

  @Test("all of them in one folder are one person's day: nothing is lost, nothing is told twice")
  func together() throws {
    let window = day(Self.answers.day)
    let all = try HealthFiles(paths: [SampleFolder.path], zone: berlin).read(
      span: window.start..<window.end, now: at("2026-06-01 00:00"))
    let summary = DayReckoning(window, all).summary
    // The xml and the zip are the same export, so they come to what one of them comes to.
    let apple = try HealthFiles(
      paths: [SampleFolder.path + "/apple", SampleFolder.path + "/apple-zip"], zone: berlin
    ).read(span: window.start..<window.end, now: at("2026-06-01 00:00"))
    #expect(DayReckoning(window, apple).summary.stepCount == Self.answers.answers["apple"]?.stepCount)
    #expect(DayReckoning(window, apple).summary.workoutCount == 2)
    let sum = Self.answers.answers.values.compactMap(\.stepCount).reduce(0, +)
    #expect(
      try #require(summary.stepCount) < sum && #require(summary.sleepMinutes) >= 410 && summary.workoutCount ?? 0 > 2)
  }

  @Test("what was left out, and why, is told")
  func remarks() throws {
    let window = day(Self.answers.day)
    func remarks(_ name: String) throws -> String {
      try HealthFiles(paths: [SampleFolder.path + "/" + name], zone: berlin).read(
        span: window.start..<window.end, now: at("2026-06-01 00:00")
      ).flatMap(\.remarks).map(\.sentence).joined(separator: "\n")
    }
    #expect(try remarks("apple").contains("1 record inside others, which repeat what stands on its own left out."))
    #expect(try remarks("apple").contains("with times that can't be left out."))
    let band = try remarks("gadgetbridge")
    #expect(band.contains("without a heart rate (0, 255)") && band.contains("2 records with times that can't be"))
    #expect(try remarks("fit").contains("Its checksum at byte") && remarks("fit").contains("Bytes after the end"))
    #expect(try remarks("fit-partial").contains("never closed") && remarks("fit-partial").contains("never ended"))
    #expect(try remarks("plain").contains("Row 10 has a start that is no time: yesterday"))
    #expect(try remarks("plain-json").contains("Record 4 lacks kind or start"))
  }
}
