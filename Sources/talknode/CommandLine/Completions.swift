/// What a shell needs to complete a command line of this program, made from the table.
struct Completions: Sendable {
  enum Shell: String, Sendable, CaseIterable { case bash, zsh, fish }

  let verbs: [Verb]

  func script(for shell: Shell) -> String {
    switch shell {
    case .bash: bash
    case .zsh: zsh
    case .fish: fish
    }
  }

  /// The first words, each once, with what they stand for.
  private var firstWords: [(word: String, summary: String)] {
    var seen: Set<String> = []
    return verbs.filter { seen.insert($0.path[0]).inserted }.map { verb in
      let group = group(verb.path[0])
      return (verb.path[0], group.count == 1 ? verb.summary : group.compactMap(\.path.second).joined(separator: ", "))
    }
  }

  private func group(_ word: String) -> [Verb] { verbs.filter { $0.path[0] == word } }

  /// What an option's value is completed with.
  private enum Value { case none, file, folder, free }
  private static func value(of option: Option) -> Value {
    switch option.value {
    case nil: .none
    case "FILE"?: .file
    case "DIR"?: .folder
    default: .free
    }
  }

  /// The options that take a value of this kind.
  private func options(taking kind: Value) -> [Option] {
    var seen: Set<String> = []
    return verbs.flatMap(\.allOptions).filter { Self.value(of: $0) == kind && seen.insert($0.name).inserted }
  }

  private func operandWords(_ verb: Verb) -> [String] {
    verb.path == ["help"] ? firstWords.map(\.word) : verb.operands.first?.words ?? []
  }

  // MARK: bash

  private var bash: String {
    func pattern(_ kind: Value) -> String { options(taking: kind).map { "--\($0.name)" }.joined(separator: "|") }
    var cases = ""
    for (word, _) in firstWords {
      let group = group(word)
      let seconds = group.compactMap(\.path.second)
      if seconds.isEmpty {
        cases += "    \(word)) words=\"\(bashWords(group[0]))\" ;;\n"
        continue
      }
      cases += "    \(word))\n      case $second in\n"
      for verb in group { cases += "        \(verb.path[1])) words=\"\(bashWords(verb))\" ;;\n" }
      // The group's own name chooses its first command.
      cases += "        *) words=\"\(seconds.joined(separator: " ")) \(bashWords(group[0]))\" ;;\n      esac ;;\n"
    }
    return """
      # bash completion of talknode; made by `talknode completions bash`.
      _talknode() {
        local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} first=${COMP_WORDS[1]} second= words=
        COMPREPLY=()
        case $previous in
          \(pattern(.folder))) mapfile -t COMPREPLY < <(compgen -d -- "$current"); return ;;
          \(pattern(.file))) mapfile -t COMPREPLY < <(compgen -f -- "$current"); return ;;
          \(pattern(.free))) return ;;
        esac
        if ((COMP_CWORD == 1)); then
          mapfile -t COMPREPLY < <(compgen -W "\(firstWords.map(\.word).joined(separator: " "))" -- "$current")
          return
        fi
        if ((COMP_CWORD > 2)); then second=${COMP_WORDS[2]}; fi
        case $first in
      \(cases.dropLast())
        esac
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
      }
      complete -F _talknode talknode

      """
  }

  private func bashWords(_ verb: Verb) -> String {
    (operandWords(verb) + verb.allOptions.map { "--\($0.name)" }).joined(separator: " ")
  }

  // MARK: zsh

  private var zsh: String {
    func described(_ rows: [(String, String)]) -> String {
      rows.map { "'\(Self.zshQuoted($0.0.replacing(":", with: "\\:"))):\(Self.zshQuoted($0.1))'" }
        .joined(separator: " ")
    }
    var cases = ""
    for (word, _) in firstWords {
      let group = group(word)
      let seconds = group.filter { $0.path.count == 2 }
      if seconds.isEmpty {
        cases += "    \(word)) _arguments \(zshArguments(group[0])) ;;\n"
        continue
      }
      cases += "    \(word))\n"
      cases += "      if ((CURRENT == 2)) && [[ $words[2] != -* ]]; then\n"
      cases += "        list=(\(described(seconds.map { ($0.path[1], $0.summary) })))\n"
      cases += "        _describe command list\n        return\n      fi\n"
      cases += "      case $words[2] in\n"
      for verb in seconds {
        cases += "        \(verb.path[1])) shift words; ((CURRENT--)); _arguments \(zshArguments(verb)) ;;\n"
      }
      cases += "        *) _arguments \(zshArguments(group[0])) ;;\n      esac ;;\n"
    }
    return """
      #compdef talknode
      # zsh completion of talknode; made by `talknode completions zsh`.
      _talknode() {
        local -a list
        if ((CURRENT == 2)); then
          list=(\(described(firstWords.map { ($0.word, $0.summary) })))
          _describe command list
          return
        fi
        shift words
        ((CURRENT--))
        case $words[1] in
      \(cases.dropLast())
        esac
      }
      if [[ $funcstack[1] == _talknode ]]; then _talknode "$@"; else compdef _talknode talknode; fi

      """
  }

  private func zshArguments(_ verb: Verb) -> String {
    func text(_ text: String) -> String {
      // Brackets and colons have a meaning of their own there.
      Self.zshQuoted(text.replacing("[", with: "(").replacing("]", with: ")").replacing(":", with: "\\:"))
    }
    var specifications = verb.allOptions.map { option in
      let action: String =
        switch Self.value(of: option) {
        case .none: ""
        case .file: ":\(option.value ?? ""):_files"
        case .folder: ":\(option.value ?? ""):_files -/"
        case .free: ":\(text(option.value ?? "")): "
        }
      return "'--\(option.name)[\(text(option.help))]\(action)'"
    }
    for (index, operand) in verb.operands.enumerated() {
      let words = operandWords(verb)
      let action = words.isEmpty ? " " : "(\(words.joined(separator: " ")))"
      specifications.append("'\(index + 1):\(text(operand.name)):\(action)'")
    }
    return specifications.joined(separator: " ")
  }

  private static func zshQuoted(_ text: String) -> String { text.replacing("'", with: #"'\''"#) }

  // MARK: fish

  private var fish: String {
    var out = "# fish completion of talknode; made by `talknode completions fish`.\ncomplete -c talknode -f\n"
    for (word, summary) in firstWords {
      out += "complete -c talknode -n __fish_use_subcommand -a \(word) -d \(Self.fishQuoted(summary))\n"
    }
    for (word, _) in firstWords {
      let group = group(word)
      let seconds = group.compactMap(\.path.second)
      let isChosen = "__fish_seen_subcommand_from \(word)"
      if seconds.isEmpty {
        out += fishOptions(group[0], when: isChosen)
        continue
      }
      let isOpen = "\(isChosen); and not __fish_seen_subcommand_from \(seconds.joined(separator: " "))"
      for verb in group {
        out += "complete -c talknode -n '\(isOpen)' -a \(verb.path[1]) -d \(Self.fishQuoted(verb.summary))\n"
      }
      for verb in group {
        out += fishOptions(verb, when: "\(isChosen); and __fish_seen_subcommand_from \(verb.path[1])")
      }
    }
    return out
  }

  private func fishOptions(_ verb: Verb, when condition: String) -> String {
    var out = ""
    let words = operandWords(verb)
    if !words.isEmpty { out += "complete -c talknode -n '\(condition)' -a '\(words.joined(separator: " "))'\n" }
    for option in verb.allOptions {
      let value: String =
        switch Self.value(of: option) {
        case .none: ""
        case .file: " -r -F"
        case .folder: " -x -a '(__fish_complete_directories)'"
        case .free: " -x"
        }
      out += "complete -c talknode -n '\(condition)' -l \(option.name)\(value) -d \(Self.fishQuoted(option.help))\n"
    }
    return out
  }

  private static func fishQuoted(_ text: String) -> String {
    "'" + text.replacing("\\", with: "\\\\").replacing("'", with: "\\'") + "'"
  }
}

extension [String] {
  fileprivate var second: String? { count > 1 ? self[1] : nil }
}
