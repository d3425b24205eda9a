#pragma once
// libjpeg-turbo's TurboJPEG interface, opened at run time: types come from its header, functions from this table, and nothing is linked.
// `cturbojpeg_load` fills the table by dlsym from an open handle.
#include <dlfcn.h>
#include <turbojpeg.h>

#define CTURBOJPEG_FUNCTIONS(X)                                                                                    \
  X(tjInitCompress) X(tjInitDecompress) X(tjDestroy) X(tjFree) X(tjAlloc) X(tjDecompressHeader3)                   \
  X(tjDecompress2) X(tjDecompressToYUVPlanes) X(tjCompressFromYUVPlanes) X(tjEncodeYUVPlanes) X(tjDecodeYUVPlanes) \
  X(tjPlaneWidth) X(tjPlaneHeight) X(tjBufSize) X(tjGetErrorStr2) X(tjGetErrorCode) X(tjGetScalingFactors)

struct cturbojpeg {
#define X(name) __typeof__(&name) name;
  CTURBOJPEG_FUNCTIONS(X)
#undef X
};

/// Fills `table`; the name of the first function that the library lacks, or NULL when all are there.
static inline const char *cturbojpeg_load(struct cturbojpeg *table, void *handle) {
#define X(name) if (!(table->name = (__typeof__(&name))dlsym(handle, #name))) return #name;
  CTURBOJPEG_FUNCTIONS(X)
#undef X
  return 0;
}
