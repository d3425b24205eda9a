#pragma once
// libsamplerate, opened at run time: types come from its header, functions from this table, and nothing is linked.
// `csamplerate_load` fills the table by dlsym from an open handle.
#include <dlfcn.h>
#include <samplerate.h>

#define CSAMPLERATE_FUNCTIONS(X) X(src_new) X(src_delete) X(src_process) X(src_strerror) X(src_get_version)

struct csamplerate {
#define X(name) __typeof__(&name) name;
  CSAMPLERATE_FUNCTIONS(X)
#undef X
};

/// Fills `table`; the name of the first function that the library lacks, or NULL when all are there.
static inline const char *csamplerate_load(struct csamplerate *table, void *handle) {
#define X(name) if (!(table->name = (__typeof__(&name))dlsym(handle, #name))) return #name;
  CSAMPLERATE_FUNCTIONS(X)
#undef X
  return 0;
}
