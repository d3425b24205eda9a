// pocketsphinx.h includes this header without its folder.
#include <pocketsphinx/pocketsphinx_export.h>
