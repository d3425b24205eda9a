// pocketsphinx.h includes this header without its folder.
#include <pocketsphinx/ps_search.h>
