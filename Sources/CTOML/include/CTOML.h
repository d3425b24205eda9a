#pragma once
// toml++ is a C++17 template library, so Swift reaches it through this C function: the document comes back as JSON text.
#ifdef __cplusplus
extern "C" {
#endif

/// Parses `length` bytes of TOML. On success returns JSON text (an object; dates and times as strings) and leaves `*error` null. On
/// failure returns null and sets `*error` to a message and `*line`, `*column` (from 1). Both strings are freed with ctoml_free.
char *ctoml_to_json(const char *text, unsigned long length, char **error, unsigned *line, unsigned *column);
void ctoml_free(char *text);

#ifdef __cplusplus
}
#endif
