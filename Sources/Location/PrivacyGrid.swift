import Glibc

/// Makes a position coarse on purpose: it becomes the middle of the field of a fixed grid that it lies in. All positions in a field become
/// the same, so asking often tells no more than asking once.
public struct PrivacyGrid: Sendable, Equatable {
  /// The side of a field, in metres.
  public let meters: Double

  /// nil for a side of 0 or less: nothing is made coarse. A side of less than a metre is one, for a grid of more fields than a number can
  /// count has no middle.
  public init?(meters: Double) {
    guard meters.isFinite, meters > 0 else { return nil }
    self.meters = min(max(meters, 1), 1_000_000)
  }

  /// Metres for a degree of latitude.
  static let degree = 111_320.0

  /// The fix as it may be told. The altitude is left out: in hills it would tell the place. `accuracyMeters` grows by how far the middle may be
  /// away.
  public func applied(to fix: Fix) -> Fix {
    var coarse = fix
    let rows = (180 * Self.degree / meters).rounded(.up)
    let height = 180 / rows
    let row = min(((fix.latitude + 90) / height).rounded(.down), rows - 1)
    coarse.latitude = (row + 0.5) * height - 90
    // So many fields as fit around the Earth at this latitude, at least one.
    let columns = max(1, (360 * Self.degree * cos(coarse.latitude * .pi / 180) / meters).rounded(.down))
    let width = 360 / columns
    let column = min(((fix.longitude + 180) / width).rounded(.down), columns - 1)
    coarse.longitude = (column + 0.5) * width - 180
    let widest = max(
      cos((row * height - 90) * .pi / 180), cos(((row + 1) * height - 90) * .pi / 180), cos(coarse.latitude * .pi / 180)
    )
    let (up, across) = (height / 2 * Self.degree, width / 2 * Self.degree * max(0, widest))
    coarse.accuracyMeters += (up * up + across * across).squareRoot()
    coarse.altitudeMeters = nil
    return coarse
  }
}
