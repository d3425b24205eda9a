#pragma once
// libav*: what Swift does not import of them are cast macros, arrays inside structures that functions want as pointers, and memfd_create.
#include <libavcodec/avcodec.h>
#include <libavcodec/bsf.h>
#include <libavformat/avformat.h>
#include <libavutil/log.h>
#include <libavutil/opt.h>
#include <libswresample/swresample.h>
#include <libswscale/swscale.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const int cav_again = AVERROR(EAGAIN);
static const int cav_end = AVERROR_EOF;
static const int64_t cav_no_time = AV_NOPTS_VALUE;
static const int cav_explode = AV_EF_EXPLODE;

/// The data planes and strides of a frame as pointers.
static inline uint8_t *cav_plane(const AVFrame *frame, int plane) { return frame->data[plane]; }
static inline int cav_stride(const AVFrame *frame, int plane) { return frame->linesize[plane]; }

/// Scales and converts `from` into `to`, whose planes are there. `full` tells that `from` has 0…255 for 16…235; both are BT.601.
static inline int cav_scale(struct SwsContext *context, const AVFrame *from, AVFrame *to, int full) {
  const int *matrix = sws_getCoefficients(SWS_CS_ITU601);
  sws_setColorspaceDetails(context, matrix, full, matrix, 0, 0, 1 << 16, 1 << 16);
  return sws_scale(context, (const uint8_t *const *)from->data, from->linesize, 0, from->height, to->data, to->linesize);
}

// What the C library shows under _GNU_SOURCE alone, which can't be set for one header: Swift has read the others without.
/// A file in memory that nobody else can see, closed on exec; -1 with errno.
static inline int cav_memory_file(void) { return (int)syscall(SYS_memfd_create, "talknode-clip", 1u); }
/// Widens a pipe (F_SETPIPE_SZ), where that is granted.
static inline void cav_widen_pipe(int fd, int bytes) { fcntl(fd, 1031, bytes); }
