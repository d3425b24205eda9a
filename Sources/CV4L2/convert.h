#pragma once
// libv4lconvert, opened at run time: types come from its header, functions from this table, and nothing is linked. `cv4lconvert_load` fills
// the table by dlsym from an open handle.
#include <dlfcn.h>
#include <libv4lconvert.h>

#define CV4LCONVERT_FUNCTIONS(X) \
  X(v4lconvert_create) X(v4lconvert_destroy) X(v4lconvert_convert) X(v4lconvert_get_error_message)

struct cv4lconvert {
#define X(name) __typeof__(&name) name;
  CV4LCONVERT_FUNCTIONS(X)
#undef X
};

/// Fills `table`; the name of the first function that the library lacks, or NULL when all are there.
static inline const char *cv4lconvert_load(struct cv4lconvert *table, void *handle) {
#define X(name) if (!(table->name = (__typeof__(&name))dlsym(handle, #name))) return #name;
  CV4LCONVERT_FUNCTIONS(X)
#undef X
  return 0;
}
