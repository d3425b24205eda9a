import Glibc

/// The machine of `make test-vm`: a kernel of its own with cameras, a sound card and keyboards, and this machine's files.
public enum Guest {
  /// Whether this is it.
  public static let isHere = getenv("TALKNODE_GUEST") != nil
  /// A folder that outlives the guest, when it was started with one worth keeping.
  public static let outFolder = "/out"
}
