/// Desktop notifications: the `org.freedesktop.Notifications` service of the user's session (Desktop Notifications Specification).
///
/// Used by the command that agents call, and for the sign that a camera or a microphone is in use. A server that isn't running is
/// started when the bus knows how.
public struct Notifier: Sendable {
  /// One notification.
  public struct Note: Sendable, Equatable {
    public enum Urgency: UInt8, Sendable {
      case low = 0
      case normal = 1
      case critical = 2
    }
    /// One line.
    public var title: String
    /// Plain text; what a server would read as markup is escaped.
    public var body: String
    public var urgency: Urgency
    public var isSilent: Bool
    /// A name of the icon theme.
    public var icon: String?
    /// A word of the specification's categories, for example `device`.
    public var category: String?
    /// The note to put this one in place of.
    public var replaces: UInt32
    /// When it goes by itself; nil leaves that to the server.
    public var lasts: Duration?

    public init(
      title: String, body: String = "", urgency: Urgency = .normal, isSilent: Bool = false, icon: String? = nil,
      category: String? = nil, replaces: UInt32 = 0, lasts: Duration? = nil
    ) {
      self.title = title
      self.body = body
      self.urgency = urgency
      self.isSilent = isSilent
      self.icon = icon
      self.category = category
      self.replaces = replaces
      self.lasts = lasts
    }
  }

  /// What a server gets to show as the sender, and what stands for a title that is missing.
  public static let applicationName = "TalkNode"

  private static let service = "org.freedesktop.Notifications"
  private static let path = "/org/freedesktop/Notifications"
  private let session: SharedBus

  /// Notifies through the bus of the user's session.
  public init(session: SharedBus) { self.session = session }

  /// Shows a note and returns its number, which `replaces` and `close` take. Throws what the bus or the server said; a missing server
  /// shows as `isServiceMissing`.
  @discardableResult
  public func show(_ note: Note, timeout: Duration = .seconds(5)) async throws(DBusError) -> UInt32 {
    let bus = try await session.bus()
    let start = Monotonic.now()
    // Asked each time: another server may have taken the name since. It costs a tenth of a millisecond.
    let reply = try await bus.call(Self.service, Self.path, Self.service, "GetCapabilities", timeout: timeout)
    let readsMarkup = reply.first?.array?.contains(.string("body-markup")) ?? false
    let hints = DBusValue.options([
      "urgency": .byte(note.urgency.rawValue), "suppress-sound": note.isSilent ? .bool(true) : nil,
      "category": note.category.map(DBusValue.string), "desktop-entry": .string("talknode"),
    ])
    let lasts = note.lasts.map { Int32(clamping: Int64(min($0, .seconds(86400)).milliseconds)) } ?? -1
    let shown = try await bus.call(
      Self.service, Self.path, Self.service, "Notify",
      [
        .string(Self.applicationName), .uint32(note.replaces), .string(note.icon ?? ""),
        .string(Self.plain(note.title, limit: 1024, keepsLines: false)),
        .string(Self.body(note.body, readsMarkup: readsMarkup)), .strings([]), hints, .int32(lasts),
      ], timeout: max(timeout - (Monotonic.now() - start), .milliseconds(100)))
    guard case .uint32(let number)? = shown.first else { throw .malformed }
    return number
  }

  /// Takes a note back. One that is gone already is no error.
  public func close(_ number: UInt32, timeout: Duration = .seconds(2)) async throws(DBusError) {
    _ = try await session.bus().call(
      Self.service, Self.path, Self.service, "CloseNotification", [.uint32(number)], timeout: timeout)
  }

  /// Whether a server runs or could be started now; else the reason, by its error.
  public func check(timeout: Duration = .seconds(2)) async throws(DBusError) {
    let bus = try await session.bus()
    if try await bus.owner(of: Self.service, timeout: timeout) != nil { return }
    let reply = try await bus.call(
      "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "ListActivatableNames", timeout: timeout)
    if reply.first?.array?.contains(.string(Self.service)) != true {
      throw DBusError("org.freedesktop.DBus.Error.ServiceUnknown", "no notification server runs or can be started")
    }
  }

  static func body(_ text: String, readsMarkup: Bool) -> String {
    let plain = plain(text, limit: 8192, keepsLines: true)
    if !readsMarkup { return plain }
    // By scalars: with an accent behind it a `<` is a character of its own, and markup all the same.
    var escaped = String.UnicodeScalarView()
    for scalar in plain.unicodeScalars {
      switch scalar {
      case "&": escaped += "&amp;".unicodeScalars
      case "<": escaped += "&lt;".unicodeScalars
      case ">": escaped += "&gt;".unicodeScalars
      default: escaped.append(scalar)
      }
    }
    return String(escaped)
  }

  /// Text without control characters, cut to `limit` Unicode scalars (a character may have any number of them): servers show what they
  /// get, and some choke on a page of it.
  static func plain(_ text: String, limit: Int, keepsLines: Bool) -> String {
    var plain = String.UnicodeScalarView()
    var count = 0
    var last: Unicode.Scalar?
    for scalar in text.unicodeScalars {
      defer { last = scalar }
      // The two of a line's end are one.
      if scalar == "\n", last == "\r" { continue }
      if count == limit { return String(plain) + "…" }
      count += 1
      if Character(scalar).isNewline {
        plain.append(keepsLines ? "\n" : " ")
      } else if scalar == "\t" {
        plain.append(" ")
      } else if scalar.properties.generalCategory != .control {
        plain.append(scalar)
      }
    }
    return String(plain)
  }
}
