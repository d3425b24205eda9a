#pragma once
// zlib, opened at run time: types come from its header, functions from this table, and nothing is linked.
// `czlib_load` fills the table by dlsym from an open handle.
#include <dlfcn.h>
#include <zlib.h>

// zlib.h renames this one for the compiler's sake; the symbol is what is looked up.
#undef inflateInit2

#define CZLIB_FUNCTIONS(X) X(inflateInit2_) X(inflate) X(inflateEnd) X(crc32) X(zlibVersion)

struct czlib {
#define X(name) __typeof__(&name) name;
  CZLIB_FUNCTIONS(X)
#undef X
};

/// Fills `table`; the name of the first function that the library lacks, or NULL when all are there.
static inline const char *czlib_load(struct czlib *table, void *handle) {
#define X(name) if (!(table->name = (__typeof__(&name))dlsym(handle, #name))) return #name;
  CZLIB_FUNCTIONS(X)
#undef X
  return 0;
}
