#pragma once
// libespeak-ng, opened on first use instead of linked: linking every optional library costs a start tens of milliseconds.
// The table's types are those of the library's own header, through __typeof__, so that a changed signature fails the build.
#include <dlfcn.h>
#include <espeak-ng/speak_lib.h>
#include <stddef.h>

#define TALKNODE_ESPEAK_SYMBOLS(X) \
  X(espeak_Initialize)             \
  X(espeak_SetSynthCallback)       \
  X(espeak_Synth)                  \
  X(espeak_SetParameter)           \
  X(espeak_ListVoices)             \
  X(espeak_SetVoiceByName)         \
  X(espeak_Info)                   \
  X(espeak_Terminate)

struct talknode_espeak {
#define X(name) __typeof__(&name) name;
  TALKNODE_ESPEAK_SYMBOLS(X)
#undef X
};

// Fills the table from an open library. NULL when it is complete, else the name of the first symbol that is not there.
static inline const char *talknode_espeak_bind(void *library, struct talknode_espeak *table) {
#define X(name) \
  if (!(table->name = (__typeof__(&name))dlsym(library, #name))) return #name;
  TALKNODE_ESPEAK_SYMBOLS(X)
#undef X
  return NULL;
}

// dladdr() is hidden behind _GNU_SOURCE, which the Clang importer does not define. The layout is that of dlfcn.h.
struct talknode_dl_info {
  const char *file;
  void *base;
  const char *symbol;
  void *address;
};
extern int dladdr(const void *, struct talknode_dl_info *) __asm__("dladdr");
extern int memfd_create(const char *, unsigned);
