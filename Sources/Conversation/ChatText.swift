import GatewayProtocol

/// Reading the text out of what chats and agents send (talk-and-chat §6.4).
public enum ChatText {
  /// The assistant's text of a `message`: a string, or an object whose role is absent or `assistant` and whose content is a string or a
  /// list of strings and text parts. Joined by line ends, trimmed; nil when there is none.
  public static func assistant(_ message: JSON?) -> String? {
    guard let message else { return nil }
    if let text = message.string { return filled(text) }
    if let role = message["role"]?.string, role != "assistant" { return nil }
    return content(message["content"])
  }

  /// The text of a `content` member, whoever wrote it.
  public static func content(_ content: JSON?) -> String? {
    if let text = content?.string { return filled(text) }
    guard let parts = content?.array else { return nil }
    let texts = parts.compactMap { part -> String? in
      if let text = part.string { return text }
      return part["type"]?.string == "text" ? part["text"]?.string : nil
    }
    return filled(texts.joined(separator: "\n"))
  }

  /// The newest assistant text of a `chat.history` page that is later than `afterMs`; nil when there is none.
  public static func newestAssistant(in history: JSON, afterMs: Int64?) -> String? {
    for row in (history["messages"]?.array ?? []).reversed() {
      guard row["role"]?.string == "assistant", let text = assistant(row) else { continue }
      if let afterMs, let timestamp = row["timestamp"]?.int, timestamp <= afterMs { return nil }
      return text
    }
    return nil
  }

  private static func filled(_ text: String) -> String? {
    guard let first = text.firstIndex(where: { !$0.isWhitespace }),
      let last = text.lastIndex(where: { !$0.isWhitespace })
    else { return nil }
    return String(text[first...last])
  }
}
