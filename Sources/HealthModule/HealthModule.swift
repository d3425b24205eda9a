/// HealthModule: `health.summary` (node-commands §6): the figures of today, from the files that the person's devices export. Off until it is
/// switched on; nothing is read before it is asked for, and nothing but the sums leaves the machine.
import GatewayProtocol
import Health
import NodeKit
import System

public struct HealthModule: CapabilityModule {
  public static let consent = Consent(
    name: "health",
    allows:
      "Agents may read today's steps, sleep, resting heart rate and workouts, as sums; the model's provider sees them.",
    refusalCode: "HEALTH_ACCESS_DISABLED")

  public let capability: Capability = "health"
  public let commands = [
    Command(
      "health.summary", summary: "Today's steps, sleep, resting heart rate and workouts.", gatewayDefault: .dangerous,
      consent: Self.consent, limit: .seconds(120))
  ]

  private let desk: HealthDesk

  public init(desk: HealthDesk) { self.desk = desk }

  public func availability() async -> Availability { desk.availability() }

  public func forget() async { await desk.forget() }

  public func handle(_ invocation: Invocation) async throws(CommandError) -> Payload {
    guard invocation.command == "health.summary" else { throw .invalidRequest("unknown command") }
    guard let text = invocation.paramsText, let params = try? JSON(parsing: text), params["period"] == "today" else {
      throw .invalidRequest("period must be today")
    }
    do throws(HealthError) {
      return .json(Self.payload(try await desk.today()))
    } catch {
      throw .unavailable("the health files were not read: \(error.summary)")
    }
  }

  /// What goes to the gateway. A figure that nobody recorded is left out; files, devices and single records are never in it.
  static func payload(_ day: DayReckoning) -> JSON {
    .object(present: [
      "period": "today",
      "startISO": .string(day.window.startISO),
      "endISO": .string(day.window.endISO),
      "timeZoneIdentifier": .string(day.window.zone.identifier),
      "stepCount": day.summary.stepCount.map { .int(Int64($0)) },
      "sleepDurationMinutes": day.summary.sleepMinutes.map { .int(Int64($0)) },
      "restingHeartRateBpm": day.summary.restingHeartRate.map(JSON.double),
      "workoutCount": day.summary.workoutCount.map { .int(Int64($0)) },
      "workoutDurationMinutes": day.summary.workoutMinutes.map { .int(Int64($0)) },
    ])
  }
}
