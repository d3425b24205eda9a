import Glibc
import System

/// A person's health files: finds them, has each read by the reader of its format, and remembers in an index what need not be read twice.
///
/// Everything here blocks; it belongs on a thread of its own.
public struct HealthFiles: Sendable {
  /// Files, and folders that are searched with all that lies in them.
  public let paths: [String]
  public let zone: ZoneRules
  /// The index's file; nil = none is kept.
  public let index: String?
  /// A folder on disk with room for a data base that is unpacked from a zip; made when it is needed, for its owner alone.
  public let scratch: String
  /// Whether the index may be kept: asked right before it is written, and once more after, for that takes its time.
  private let mayKeep: @Sendable () -> Bool
  /// How many records are kept of all files together.
  var recordLimit = RecordBudget.whole

  public init(
    paths: [String], zone: ZoneRules, index: String? = nil, scratch: String = "/var/tmp",
    mayKeep: @escaping @Sendable () -> Bool = { true }
  ) {
    self.paths = paths
    self.zone = zone
    self.index = index
    self.scratch = scratch
    self.mayKeep = mayKeep
  }

  private static let depthLimit = 10
  private static let fileLimit = 50_000
  /// How far back the index remembers.
  static let remembered: Int64 = 14 * 86_400_000 + 2 * Gathering.margin

  // MARK: Finding

  /// The files that may hold something, each once; `missing` are paths that lead nowhere.
  public func find() -> (files: [String], missing: [String]) {
    var files: [String] = []
    var missing: [String] = []
    for path in paths {
      var status = stat()
      guard stat(path, &status) == 0 else {
        missing.append(path)
        continue
      }
      if status.st_mode & S_IFMT == S_IFDIR {
        walk(path, HealthFiles.depthLimit, &files)
      } else {
        files.append(path)
      }
    }
    var seen: Set<String> = []
    return (files.filter { seen.insert($0).inserted }, missing)
  }

  private func walk(_ folder: String, _ depth: Int, _ files: inout [String]) {
    if depth == 0 { return }
    for name in Files.list(folder) where !name.hasPrefix(".") && files.count < HealthFiles.fileLimit {
      let path = folder + (folder.hasSuffix("/") ? "" : "/") + name
      var status = stat()
      // A link to a folder may lead back here; one to a file may not.
      guard lstat(path, &status) == 0 else { continue }
      if status.st_mode & S_IFMT == S_IFDIR {
        walk(path, depth - 1, &files)
      } else if HealthFiles.isFile(path), HealthFormats.mayBeOne(path) {
        files.append(path)
      }
    }
  }

  private static func isFile(_ path: String) -> Bool { FileIdentity(path: path) != nil }

  // MARK: Reading

  /// What the files tell about a span of time (milliseconds since 1970). One that can't be read is in it too, with the reason as its
  /// remark. Throws `cancelled` alone.
  public func read(
    span: Range<Int64>, now: Int64, isCancelled: @escaping @Sendable () -> Bool = { false }
  ) throws(HealthError) -> [FileEvidence] {
    UnpackedFile.removeLeftOnes(in: scratch)
    let (files, missing) = find()
    var book = index.map { HealthIndex(path: $0, zone: zone.identifier) }
    var evidence = missing.map {
      FileEvidence(file: $0, format: "none", remarks: [Remark(.damage, "It is not there.")])
    }
    let budget = RecordBudget(recordLimit)
    var seen: Set<FileIdentity> = []
    for path in files {
      if isCancelled() { throw .cancelled }
      let reading = Reading(
        files: self, path: path, span: span, now: now, budget: budget, isCancelled: isCancelled)
      // The same file under two names is one.
      if let identity = FileIdentity(path: path), !seen.insert(identity).inserted { continue }
      evidence += try reading.evidence(&book)
    }
    if var book {
      book.forget(except: Set(files))
      keep(book)
    }
    return evidence
  }

  /// The person may have switched it off while the files were read, or while this was written.
  private func keep(_ book: HealthIndex) {
    if !book.hasChanged || !mayKeep() { return }
    book.write()
    if !mayKeep() { unlink(book.path) }
  }
}

/// One file's reading.
private struct Reading {
  let files: HealthFiles
  let path: String
  let span: Range<Int64>
  let now: Int64
  let budget: RecordBudget
  let isCancelled: @Sendable () -> Bool

  /// What a file told, and how it may be remembered.
  private struct Told {
    var evidence: [FileEvidence] = []
    var memory: HealthIndex.Memory?
  }

  func evidence(_ index: inout HealthIndex?) throws(HealthError) -> [FileEvidence] {
    do throws(HealthError) {
      var file = try OpenFile(path)
      if let known = try remembered(index, file) { return known }
      var told = try told(file, remembers: index != nil)
      if !file.isUnchanged {
        // Somebody is copying a newer one over it: once more, with that one.
        budget.giveBack(told.evidence.reduce(0) { $0 + $1.records.count })
        file = try OpenFile(path)
        told = try self.told(file, remembers: index != nil)
        if !file.isUnchanged {
          told.memory = nil
          told.evidence.append(
            failed(HealthError(.changed, "It is being written just now; some of it may be missing.")))
        }
      }
      if let memory = told.memory { index?.remember(path, file.identity, memory) }
      return told.evidence
    } catch {
      if error.code == .cancelled { throw error }
      return [failed(error)]
    }
  }

  private func failed(_ error: HealthError) -> FileEvidence {
    FileEvidence(file: path, format: "none", remarks: [Remark(.damage, error.description)])
  }

  // MARK: From the index

  private func remembered(_ index: HealthIndex?, _ file: OpenFile) throws(HealthError) -> [FileEvidence]? {
    switch index?.memory(of: path, file.identity) {
    case .nothing?: return []
    case .evidence(let evidence, let since)?:
      guard since <= span.lowerBound - Gathering.margin else { return nil }
      budget.take(evidence.reduce(0) { $0 + $1.records.count })
      return evidence.map {
        var evidence = $0
        evidence.isFromIndex = true
        return evidence
      }
    case .blocks(let blocks)?:
      let input = HealthInput(name: path, file: file)
      let gathering = gathering(span)
      input.ranges = BlockMap.ranges(blocks, touching: gathering.kept)
      let reader = AppleHealthReader()
      try reader.read(input, into: gathering)
      if !file.isUnchanged {
        budget.giveBack(gathering.records.count)
        return nil
      }
      var evidence = gathering.evidence(file: path, format: reader.format)
      evidence.isFromIndex = true
      return [evidence]
    case nil: return nil
    }
  }

  private func gathering(_ span: Range<Int64>) -> Gathering {
    Gathering(
      span: span, now: now, zone: files.zone, scratch: files.scratch, budget: budget, isCancelled: isCancelled)
  }

  // MARK: From the file

  private func told(_ file: OpenFile, remembers: Bool) throws(HealthError) -> Told {
    let input = HealthInput(name: path, file: file)
    let head = input.head()
    if head.starts(with: [0x50, 0x4B, 3, 4]) || head.starts(with: [0x50, 0x4B, 5, 6]) {
      return try archive(file, remembers)
    }
    guard let reader = HealthFormats.reader(of: path, head: head) else { return Told(memory: .nothing) }
    let isSQLite = head.starts(with: Array("SQLite format 3\0".utf8))
    let isXML = reader is AppleHealthReader
    if isXML { input.blocks = BlockMap() }
    // A data base has an index of its own and may change without its file changing.
    let span = remembers && !isSQLite && !isXML ? wide : span
    let (evidence, isWhole) = try read(reader, input, span, named: path)
    var told = Told(evidence: [evidence])
    if isWhole, isXML, let blocks = input.blocks {
      told.memory = .blocks(blocks.blocks)
    } else if isWhole, !isSQLite, !isXML {
      told.memory = .evidence([evidence], since: span.lowerBound - Gathering.margin)
    }
    return told
  }

  /// What is remembered: all from two weeks ago on, or from where is asked about, when that is earlier.
  private var wide: Range<Int64> { min(span.lowerBound, now - HealthFiles.remembered)..<(Int64.max / 4) }

  private func archive(_ file: OpenFile, _ remembers: Bool) throws(HealthError) -> Told {
    let check = { () throws(HealthError) in if isCancelled() { throw .cancelled } }
    let archive = try ZipArchive(file, check: check)
    let span = remembers ? wide : span
    var told = Told()
    var isWhole = true
    for entry in archive.entries where HealthFormats.mayBeOne(entry.name) {
      try check()
      let name = "\(path): \(entry.name)"
      let input = HealthInput(name: entry.name, size: entry.size) { () throws(HealthError) in try archive.open(entry) }
      do throws(HealthError) {
        if entry.isEncrypted { _ = try archive.open(entry) }
        guard let reader = HealthFormats.reader(of: entry.name, head: input.head()) else { continue }
        let (evidence, whole) = try read(reader, input, span, named: name)
        if !whole { isWhole = false }
        told.evidence.append(evidence)
      } catch {
        if error.code == .cancelled { throw error }
        isWhole = false
        var failed = failed(error)
        failed.file = name
        told.evidence.append(failed)
      }
    }
    if let damage = archive.damage { told.evidence.append(failed(damage)) }
    if isWhole {
      told.memory =
        told.evidence.isEmpty
        ? .nothing : .evidence(told.evidence, since: span.lowerBound - Gathering.margin)
    }
    return told
  }

  /// Has a reader read; what it found before an error holds, and the error is a remark.
  private func read(
    _ reader: any HealthReader, _ input: HealthInput, _ span: Range<Int64>, named name: String
  ) throws(HealthError) -> (FileEvidence, isWhole: Bool) {
    let gathering = gathering(span)
    var isWhole = true
    do throws(HealthError) {
      try reader.read(input, into: gathering)
      // With fewer files beside it there may be room for all of it.
      isWhole = !gathering.hasOverflowed
    } catch {
      if error.code == .cancelled { throw error }
      gathering.remark(.damage, error.description)
      // A library that is missing today may be there tomorrow.
      isWhole = error.code == .damaged && !gathering.hasOverflowed
    }
    return (gathering.evidence(file: name, format: reader.format), isWhole)
  }
}
