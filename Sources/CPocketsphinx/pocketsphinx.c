// SwiftPM wants one source file in a C target; the shim is all in the header.
#include "talknode_pocketsphinx.h"
