#pragma once
// libpocketsphinx, opened on first use instead of linked: linking every optional library costs a start tens of milliseconds.
// The table's types are those of the library's own headers, through __typeof__, so that a changed signature fails the build.
// This is a target with a search path of its own, not a bare module map, because pocketsphinx.h includes its sister headers
// without their folder; the small files beside this one lead to them.
#include <dlfcn.h>
#include <pocketsphinx/pocketsphinx.h>
#include <sphinxbase/err.h>
#include <stddef.h>

#define TALKNODE_POCKETSPHINX_SYMBOLS(X) \
  X(cmd_ln_parse_r)                      \
  X(cmd_ln_set_str_r)                    \
  X(cmd_ln_set_int_r)                    \
  X(cmd_ln_free_r)                       \
  X(err_set_logfp)                       \
  X(ps_args)                             \
  X(ps_init)                             \
  X(ps_free)                             \
  X(ps_start_utt)                        \
  X(ps_process_raw)                      \
  X(ps_end_utt)                          \
  X(ps_get_hyp)                          \
  X(ps_get_in_speech)                    \
  X(ps_set_jsgf_string)                  \
  X(ps_set_search)                       \
  X(ps_lookup_word)

struct talknode_pocketsphinx {
#define X(name) __typeof__(&name) name;
  TALKNODE_POCKETSPHINX_SYMBOLS(X)
#undef X
};

// Fills the table from an open library. NULL when it is complete, else the name of the first symbol that is not there.
static inline const char *talknode_pocketsphinx_bind(void *library, struct talknode_pocketsphinx *table) {
#define X(name) \
  if (!(table->name = (__typeof__(&name))dlsym(library, #name))) return #name;
  TALKNODE_POCKETSPHINX_SYMBOLS(X)
#undef X
  return NULL;
}
