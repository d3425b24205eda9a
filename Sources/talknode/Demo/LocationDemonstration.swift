import Configuration
import GatewayProtocol
import Location
import NodeKit
import System

/// Where the machine is: a real gpsd of the demo's own, fed by gpsfake with a recorded drive. With --live the machine's own gpsd or GeoClue.
struct LocationDemonstration: Demonstration {
  let capability: Capability = "location"

  func prepare(_ stage: Stage) async throws(Skip) {
    if stage.isLive { return }
    guard let folder = Samples.folder("location") else {
      throw Skip(reason: "The recorded drive is not beside the program.", remedy: "make demo, in the source folder")
    }
    let loop = EventLoop(name: "demo gpsd")
    let gpsd = SampleGpsd(logs: [folder + "/drive.nmea"], loop: loop)
    do throws(LocationError) { try await gpsd.start() } catch {
      loop.stop()
      throw Skip(reason: error.summary, remedy: error.remedy)
    }
    await stage.atEnd {
      await gpsd.stop()
      loop.stop()
    }
    let address = await gpsd.address
    await stage.configure { settings in
      settings.location.provider = .gpsd
      settings.location.gpsdHost = address.host
      settings.location.gpsdPort = Int(address.port)
    }
  }

  func steps(_ stage: Stage) -> [DemoStep] {
    let isLive = stage.isLive
    return [
      DemoStep(
        "location.get", params: ["timeoutMs": 20_000, "desiredAccuracy": "precise"], source: isLive ? .live : .sample
      ) { payload throws(DemoStep.Flaw) in
        guard let latitude = payload["lat"]?.double, let longitude = payload["lon"]?.double,
          let accuracy = payload["accuracyMeters"]?.double, payload["timestamp"]?.string != nil
        else { throw DemoStep.Flaw(sentence: "The answer lacks a place: \(DemoStep.short(payload)).") }
        // The drive does not leave the town.
        if !isLive, !(52.07...52.11).contains(latitude) || !(5.1...5.15).contains(longitude) {
          throw DemoStep.Flaw(sentence: "That is not where the recorded drive is: \(DemoStep.short(payload)).")
        }
        if !isLive, payload["source"] != "gps" {
          throw DemoStep.Flaw(sentence: "It does not come from the receiver: \(DemoStep.short(payload)).")
        }
        let place = "\(LocationCommand.number(latitude, 5)), \(LocationCommand.number(longitude, 5))"
        return "\(place) ±\(LocationCommand.number(accuracy, 0)) m, by \(payload["source"]?.string ?? "nobody named")"
      }
    ]
  }
}
