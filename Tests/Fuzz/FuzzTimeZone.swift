// covers, as time-zone: Sources/System/Calendar/ZoneRules.swift Sources/System/Calendar/ZoneRules+TZif.swift Sources/System/Calendar/ZoneRule.swift
import System

/// A zone file, or a rule as in the TZ variable: whatever it is, a day begins in it, and times of its clocks are near UTC's.
@Sendable func fuzzTimeZone(_ bytes: UnsafeRawBufferPointer) {
  let zone =
    (try? ZoneRules(tzif: [UInt8](bytes), identifier: "fuzz"))
    ?? ZoneRules(posix: String(decoding: bytes, as: UTF8.self), identifier: "fuzz")
  guard let zone else { return }
  for instant in stride(from: Int64(-3_000_000_000), to: 30_000_000_000, by: 1_234_567_891) {
    let offset = zone.offset(at: instant)
    precondition(abs(offset) <= 26 * 3600, "\(offset) s from UTC")
    let date = zone.date(at: instant)
    precondition(abs(zone.start(of: date) - Int64(date.number) * 86_400) <= 60 * 3600)
    precondition(abs(zone.instant(local: instant) - instant) <= 60 * 3600)
  }
}
