import Configuration
import GatewayProtocol
import NodeKit
import System

/// The bundled exports, put to today: their day's dates become today's, in a zone in which today is nearly over, so that its figures are the
/// known ones at any hour. With --live, the person's own files.
struct HealthDemonstration: Demonstration {
  let capability: Capability = "health"

  /// The samples that are text, so that their dates can be put to another day. All tell of the same day.
  private static let names = ["apple/export.xml", "plain/day.csv"]
  private static let sampleDay = CivilDate(year: 2026, month: 5, day: 2)!

  func prepare(_ stage: Stage) async throws(Skip) {
    if stage.isLive { return }
    guard let samples = Samples.folder("health") else {
      throw Skip(reason: "The health samples are not beside the program.", remedy: "make demo, in the source folder")
    }
    let (zone, offset, today) = Self.lateZone(WallClock.milliseconds() / 1000)
    let folder = stage.folder + "/health"
    do {
      for name in Self.names {
        guard let text = Files.text(samples + "/" + name) else {
          throw Skip(reason: "The health sample \(name) can't be read.", remedy: "make demo, in the source folder")
        }
        let target = folder + "/" + name.split(separator: "/").joined(separator: "-")
        try Files.makeFolder(folder)
        try Files.writeAtomically(Array(Self.moved(text, to: today, offset: offset).utf8), to: target)
      }
    } catch let skip as Skip {
      throw skip
    } catch {
      throw Skip(reason: "The health samples could not be laid down: \(error)", remedy: "talknode demo --out DIR")
    }
    await stage.configure { settings in
      settings.health.files = [folder]
      settings.health.timeZone = zone
    }
  }

  func steps(_ stage: Stage) -> [DemoStep] {
    let isLive = stage.isLive
    return [
      DemoStep("health.summary", params: ["period": "today"], source: isLive ? .live : .sample) {
        payload throws(DemoStep.Flaw) in
        let steps = payload["stepCount"]?.int
        let asleep = payload["sleepDurationMinutes"]?.int
        let heart = payload["restingHeartRateBpm"]?.double
        let workouts = payload["workoutCount"]?.int
        if !isLive, steps == nil || asleep == nil || heart == nil || workouts == nil {
          throw DemoStep.Flaw(sentence: "The samples tell more than \(DemoStep.short(payload)).")
        }
        let parts = [
          steps.map { "\($0) steps" }, asleep.map { "\($0) min asleep" }, heart.map { "resting heart rate \($0)" },
          workouts.map { "\($0) workouts" },
        ].compactMap { $0 }
        let told = parts.isEmpty ? "nothing was recorded today" : parts.joined(separator: ", ")
        return isLive ? told : "\(told), of an Apple Health export and a CSV"
      }
    ]
  }

  /// A zone in which it is between ten and twelve in the evening: its name, its hours ahead of UTC, and its today.
  static func lateZone(_ now: Int64) -> (name: String, offset: Int, today: CivilDate) {
    let hour = Int(now % 86_400 / 3600)
    var offset = 22 - hour
    if offset < -12 { offset += 24 }
    let name = offset == 0 ? "UTC" : "Etc/GMT" + (offset > 0 ? "-" : "+") + "\(abs(offset))"
    return (name, offset, CivilDate(number: Int((now + Int64(offset) * 3600) / 86_400)))
  }

  /// The text with its day and the one before put to another, by clocks of another offset.
  static func moved(_ text: String, to today: CivilDate, offset: Int) -> String {
    let digits = (abs(offset) < 10 ? "0" : "") + "\(abs(offset))"
    let sign = offset < 0 ? "-" : "+"
    var out = text
    for (from, to) in [
      (sampleDay.description, today.description),
      (sampleDay.adding(days: -1).description, today.adding(days: -1).description),
      (" +0200", " \(sign)\(digits)00"), ("+02:00", "\(sign)\(digits):00"),
    ] { out = out.split(separator: from, omittingEmptySubsequences: false).joined(separator: to) }
    return out
  }
}
