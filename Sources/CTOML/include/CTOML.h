#pragma once
// toml++ is a C++17 template library, so Swift reaches it through this one C function, which walks the parsed document. Each value comes
// with its place in the text, so that a wrong setting can be named by line and column.
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum ctoml_kind {
  CTOML_STRING,
  CTOML_INTEGER,
  CTOML_FLOAT,
  CTOML_BOOLEAN,
  CTOML_DATE,   // a date, a time or both; no setting has this type, so its value is not carried
  CTOML_ARRAY,  // the elements follow, then CTOML_END
  CTOML_TABLE,  // the members follow, then CTOML_END
  CTOML_END
};

/// One step of the walk. The texts are UTF-8, not terminated, and live until the callback returns.
struct ctoml_event {
  enum ctoml_kind kind;
  const char *key;  // the member's name; null for elements of an array, CTOML_END and the document's own table
  size_t key_length;
  unsigned line, column;  // where the key is, or the value where there is no key; from 1, columns in characters
  const char *text;       // of a string
  size_t text_length;
  int64_t integer;  // of an integer; 0 or 1 of a boolean
  double number;    // of a float; may be infinite or no number
};

/// Why a text is no TOML.
struct ctoml_error {
  char message[256];      // a sentence fragment, terminated
  unsigned line, column;  // from 1; 0 when unknown
};

/// Parses `length` bytes of TOML and, when all of it is right, reports the document to `on_event`: first its table, then the members
/// depth first, then the last CTOML_END. Returns 1, or 0 with `*error` filled in.
///
/// Total for any bytes: nesting and dotted keys are limited before and while parsing, so that a hostile file can't exhaust the stack.
int ctoml_parse(
    const char *text, size_t length, void (*on_event)(void *context, const struct ctoml_event *event), void *context,
    struct ctoml_error *error);

#ifdef __cplusplus
}
#endif
