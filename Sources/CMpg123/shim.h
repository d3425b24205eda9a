#pragma once
// libmpg123, opened at run time: types come from its header, functions from this table, and nothing is linked.
// `cmpg123_load` fills the table by dlsym from an open handle.
#include <dlfcn.h>
// Without this, newer headers rename mpg123_param to a function that older libraries lack.
#define MPG123_ENUM_API
#include <mpg123.h>

#define CMPG123_FUNCTIONS(X)                                                                                          \
  X(mpg123_init) X(mpg123_new) X(mpg123_delete) X(mpg123_param) X(mpg123_open_feed) X(mpg123_feed) X(mpg123_read)     \
  X(mpg123_getformat) X(mpg123_plain_strerror)

struct cmpg123 {
#define X(name) __typeof__(&name) name;
  CMPG123_FUNCTIONS(X)
#undef X
};

/// Fills `table`; the name of the first function that the library lacks, or NULL when all are there.
static inline const char *cmpg123_load(struct cmpg123 *table, void *handle) {
#define X(name) if (!(table->name = (__typeof__(&name))dlsym(handle, #name))) return #name;
  CMPG123_FUNCTIONS(X)
#undef X
  return 0;
}
