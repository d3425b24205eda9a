// pocketsphinx.h includes this header without its folder.
#include <pocketsphinx/cmdln_macro.h>
