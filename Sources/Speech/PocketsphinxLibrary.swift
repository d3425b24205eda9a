import CPocketsphinx
import Glibc
import System

/// libpocketsphinx's functions.
// @unchecked Sendable: the table is filled once and only read after that.
final class PocketsphinxLibrary: @unchecked Sendable {
  let functions: talknode_pocketsphinx

  static let shared: Result<PocketsphinxLibrary, SpeechError> = Result { () throws(SpeechError) in
    try PocketsphinxLibrary()
  }

  private init() throws(SpeechError) {
    var functions = talknode_pocketsphinx()
    do throws(SharedLibrary.Absence) {
      let library = try SharedLibrary("libpocketsphinx.so.3")
      if let symbol = talknode_pocketsphinx_bind(library.handle, &functions) {
        throw SharedLibrary.Absence(library: "libpocketsphinx.so.3", reason: "it has no \(String(cString: symbol))")
      }
    } catch {
      throw SpeechError(
        .missing, "pocketsphinx can't be used: \(error.reason).",
        remedy: "apt install libpocketsphinx3 pocketsphinx-en-us")
    }
    // It writes what it hears into its log.
    functions.err_set_logfp(nil)
    self.functions = functions
  }
}

/// The model that pocketsphinx hears with.
public struct PocketsphinxModel: Sendable, Equatable {
  /// Holds the acoustic model: `mdef`, `means` and others.
  public let acoustic: String
  public let dictionary: String
  /// For dictation; nil when the folder has none.
  public let language: String?

  /// The model in `folder`: the acoustic model in it or one folder below, a `.dict` and a `.lm.bin` beside it.
  public init?(folder: String) {
    guard
      let acoustic = ([folder] + Files.list(folder).map { folder + "/" + $0 }).first(where: {
        Files.exists($0 + "/mdef")
      })
    else { return nil }
    let files = Files.list(folder)
    guard let dictionary = files.first(where: { $0.hasSuffix(".dict") }) else { return nil }
    self.acoustic = acoustic
    self.dictionary = folder + "/" + dictionary
    let models = files.filter { $0.hasSuffix(".lm.bin") || $0.hasSuffix(".lm") || $0.hasSuffix(".dmp") }
    language = models.first { !$0.contains("phone") }.map { folder + "/" + $0 }
  }

  /// Where distributions put the English model.
  public static let usualFolders = [
    "/usr/share/pocketsphinx/model/en-us", "/usr/local/share/pocketsphinx/model/en-us",
  ]

  static func find(_ folder: String?) throws(SpeechError) -> PocketsphinxModel {
    if let model = (folder.map { [$0] } ?? usualFolders).lazy.compactMap(PocketsphinxModel.init).first { return model }
    throw SpeechError(
      .missing, "pocketsphinx has no model" + (folder.map { " in \($0)" } ?? "") + ".",
      remedy: "apt install pocketsphinx-en-us")
  }
}
