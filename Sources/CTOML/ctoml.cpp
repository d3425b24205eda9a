#include "CTOML.h"

#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string_view>
#include <toml++/toml.h>

char *ctoml_to_json(const char *text, unsigned long length, char **error, unsigned *line, unsigned *column) {
  *error = nullptr;
  *line = *column = 0;
  try {
    const toml::table table = toml::parse(std::string_view(text, length));
    std::ostringstream out;
    out << toml::json_formatter{table};
    return strdup(out.str().c_str());
  } catch (const toml::parse_error &e) {
    *error = strdup(std::string(e.description()).c_str());
    *line = e.source().begin.line;
    *column = e.source().begin.column;
  } catch (const std::exception &e) {
    *error = strdup(e.what());
  }
  return nullptr;
}

void ctoml_free(char *text) { free(text); }
