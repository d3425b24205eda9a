#include "CTOML.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string_view>

// The parser's own assertions are reached by some malformed texts (a key that begins with a letter it does not know): they would end the
// program, and without assertions the compiler takes them for granted, which is worse. Here such a text is a mistake like any other.
#undef NDEBUG
#define TOML_ASSERT(condition) \
  do { \
    if (!(condition)) throw std::runtime_error("something here is not as TOML wants it"); \
  } while (false)
#define TOML_ENABLE_FORMATTERS 0
#define TOML_MAX_NESTED_VALUES 16
#include <toml++/toml.h>

namespace {

// toml++ limits how deep values nest, but not how many dots a key has: `a.a.a.…` makes a table a dot, and a file of nothing else would
// end in a stack overflow when the tables are freed. Keys of settings have one dot.
constexpr unsigned max_dots = 16;

/// Where a key has more than `max_dots` dots; null when none has. Strings and comments are skipped by TOML's own lexical rules; after the
/// first mistake in the text the answer is worthless, but there the parser stops too.
const char *deep_key(std::string_view text) {
  unsigned dots = 0;
  for (size_t i = 0; i < text.size(); i++) {
    const char c = text[i];
    if (c == '#') {
      while (i < text.size() && text[i] != '\n') i++;
      dots = 0;
    } else if (c == '"' || c == '\'') {
      const bool is_long = text.substr(i, 3) == std::string_view(c == '"' ? "\"\"\"" : "'''");
      i += is_long ? 3 : 1;
      for (; i < text.size(); i++) {
        if (c == '"' && text[i] == '\\') {
          i++;
        } else if (!is_long && (text[i] == c || text[i] == '\n')) {
          break;
        } else if (is_long && text[i] == c && text.substr(i, 3) == std::string_view(c == '"' ? "\"\"\"" : "'''")) {
          i += 2;
          while (i + 1 < text.size() && text[i + 1] == c) i++;  // up to two quotes may stand before the closing three
          break;
        }
      }
    } else if (c == '.') {
      if (++dots > max_dots) return text.data() + i;
    } else if (c == '\n' || c == '=' || c == ',' || c == '[' || c == ']' || c == '{' || c == '}') {
      dots = 0;
    }
  }
  return nullptr;
}

struct Walk {
  void (*on_event)(void *, const ctoml_event *);
  void *context;

  void value(const toml::node &node, const toml::key *key) const {
    ctoml_event event = {};
    const toml::source_position at = key ? key->source().begin : node.source().begin;
    event.line = at.line;
    event.column = at.column;
    if (key) {
      event.key = key->str().data();
      event.key_length = key->str().size();
    }
    if (const auto *string = node.as_string()) {
      event.kind = CTOML_STRING;
      event.text = string->get().data();
      event.text_length = string->get().size();
    } else if (const auto *integer = node.as_integer()) {
      event.kind = CTOML_INTEGER;
      event.integer = integer->get();
    } else if (const auto *number = node.as_floating_point()) {
      event.kind = CTOML_FLOAT;
      event.number = number->get();
    } else if (const auto *boolean = node.as_boolean()) {
      event.kind = CTOML_BOOLEAN;
      event.integer = boolean->get() ? 1 : 0;
    } else if (const auto *table = node.as_table()) {
      event.kind = CTOML_TABLE;
      on_event(context, &event);
      for (const auto &[name, member] : *table) value(member, &name);
      end();
      return;
    } else if (const auto *array = node.as_array()) {
      event.kind = CTOML_ARRAY;
      on_event(context, &event);
      for (const auto &element : *array) value(element, nullptr);
      end();
      return;
    } else {
      event.kind = CTOML_DATE;
    }
    on_event(context, &event);
  }

  void end() const {
    ctoml_event event = {};
    event.kind = CTOML_END;
    on_event(context, &event);
  }
};

int fail(ctoml_error *error, std::string_view message, unsigned line, unsigned column) {
  const size_t length = std::min(message.size(), sizeof error->message - 1);
  memcpy(error->message, message.data(), length);
  error->message[length] = 0;
  error->line = line;
  error->column = column;
  return 0;
}

}  // namespace

int ctoml_parse(
    const char *text, size_t length, void (*on_event)(void *, const ctoml_event *), void *context, ctoml_error *error) {
  const std::string_view all(text, length);
  if (const char *deep = deep_key(all)) {
    const std::string_view before(text, deep - text);
    const size_t line_start = before.rfind('\n') + 1;
    return fail(
        error, "a key has too many dots", 1 + std::count(before.begin(), before.end(), '\n'), deep - text - line_start + 1);
  }
  try {
    const toml::table table = toml::parse(all);
    Walk{on_event, context}.value(table, nullptr);
    return 1;
  } catch (const toml::parse_error &e) {
    return fail(error, e.description(), e.source().begin.line, e.source().begin.column);
  } catch (const std::exception &e) {
    return fail(error, e.what(), 0, 0);
  }
}
