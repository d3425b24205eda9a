import Foundation
import System
import TestSupport

/// A clip as ffprobe sees it.
struct Probe {
  struct Stream {
    var codec: String
    var width: Int?
    var height: Int?
    var pixelFormat: String?
    var sampleRate: Int?
    var channels: Int?
    /// Seconds.
    var start: Double
    var duration: Double
    /// When each packet is shown, in seconds.
    var times: [Double]
  }

  var streams: [Stream]
  /// Seconds.
  var duration: Double
  var video: Stream? { streams.first { $0.width != nil } }
  var audio: Stream? { streams.first { $0.sampleRate != nil } }

  init(_ path: String, loop: EventLoop) async throws {
    let result = try await Subprocess.run(
      .init("ffprobe", ["-v", "error", "-show_streams", "-show_format", "-show_packets", "-of", "json", path]),
      outputLimit: 16 << 20, deadline: .seconds(120), loop: loop)
    struct Failed: Error, CustomStringConvertible { let description: String }
    guard result.exit.isSuccess, result.errorOutput.isEmpty else { throw Failed(description: result.errorOutput) }
    guard let all = try JSONSerialization.jsonObject(with: Data(result.output)) as? [String: Any] else {
      throw Failed(description: "no JSON")
    }
    func number(_ object: [String: Any], _ key: String) -> Double? { (object[key] as? String).flatMap(Double.init) }
    duration = number(all["format"] as? [String: Any] ?? [:], "duration") ?? 0
    let packets = all["packets"] as? [[String: Any]] ?? []
    streams = (all["streams"] as? [[String: Any]] ?? []).map { stream in
      let index = stream["index"] as? Int
      return Stream(
        codec: stream["codec_name"] as? String ?? "", width: stream["width"] as? Int,
        height: stream["height"] as? Int, pixelFormat: stream["pix_fmt"] as? String,
        sampleRate: number(stream, "sample_rate").map(Int.init), channels: stream["channels"] as? Int,
        start: number(stream, "start_time") ?? -1, duration: number(stream, "duration") ?? -1,
        times: packets.filter { $0["stream_index"] as? Int == index }.compactMap { number($0, "pts_time") })
    }
  }

  /// Every picture's mean brightness with its time, and the sound as mono samples of 48 kHz, as ffmpeg decodes them on one clock.
  static func decoded(
    _ path: String, width: Int, height: Int, loop: EventLoop
  ) async throws -> (pictures: [Double], sound: [Float]) {
    func run(_ arguments: [String]) async throws -> [UInt8] {
      try await Subprocess.run(
        .init("ffmpeg", ["-v", "error", "-i", path] + arguments + ["-"]), outputLimit: 256 << 20,
        deadline: .seconds(120), loop: loop
      ).output
    }
    let grey = try await run(["-vsync", "passthrough", "-f", "rawvideo", "-pix_fmt", "gray"])
    let frame = width * height
    let pictures = stride(from: 0, to: grey.count - frame + 1, by: frame).map { start in
      Double(grey[start..<(start + frame)].reduce(0) { $0 + Int($1) }) / Double(frame)
    }
    // From the clip's first moment on, wherever the track's first sample lies.
    let raw = try await run(["-vn", "-af", "aresample=48000:async=1:first_pts=0", "-ac", "1", "-f", "f32le"])
    let sound = stride(from: 0, to: raw.count - 3, by: 4).map { at in
      Float(bitPattern: (0..<4).reduce(UInt32(0)) { $0 | UInt32(raw[at + $1]) << (8 * UInt32($1)) })
    }
    return (pictures, sound)
  }
}
