#pragma once
// libsndfile, opened at run time: types come from its header, functions from this table, and nothing is linked.
// `csndfile_load` fills the table by dlsym from an open handle.
#include <dlfcn.h>
#include <sndfile.h>

#define CSNDFILE_FUNCTIONS(X)                                                                                         \
  X(sf_open_virtual) X(sf_close) X(sf_readf_float) X(sf_error) X(sf_strerror) X(sf_error_number) X(sf_version_string) \
  X(sf_command)

struct csndfile {
#define X(name) __typeof__(&name) name;
  CSNDFILE_FUNCTIONS(X)
#undef X
};

/// Fills `table`; the name of the first function that the library lacks, or NULL when all are there.
static inline const char *csndfile_load(struct csndfile *table, void *handle) {
#define X(name) if (!(table->name = (__typeof__(&name))dlsym(handle, #name))) return #name;
  CSNDFILE_FUNCTIONS(X)
#undef X
  return 0;
}
