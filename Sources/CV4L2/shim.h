#pragma once
// Video4Linux. ioctl() is variadic and VIDIOC_*, V4L2_CAP_*, V4L2_CID_* are macros with casts, so Swift imports neither: each request has a
// function here, which repeats when a signal interrupts it and returns 0 or -errno, and the macros are constants.
#include <errno.h>
#include <linux/videodev2.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

static inline int cv4l2_request(int fd, unsigned long request, void *argument) {
  int result;
  do result = ioctl(fd, request, argument);
  while (result == -1 && errno == EINTR);
  return result == -1 ? -errno : 0;
}
#define CV4L2_REQUEST(name, request, type) \
  static inline int cv4l2_##name(int fd, type *argument) { return cv4l2_request(fd, request, argument); }
CV4L2_REQUEST(querycap, VIDIOC_QUERYCAP, struct v4l2_capability)
CV4L2_REQUEST(enum_fmt, VIDIOC_ENUM_FMT, struct v4l2_fmtdesc)
CV4L2_REQUEST(enum_framesizes, VIDIOC_ENUM_FRAMESIZES, struct v4l2_frmsizeenum)
CV4L2_REQUEST(enum_frameintervals, VIDIOC_ENUM_FRAMEINTERVALS, struct v4l2_frmivalenum)
CV4L2_REQUEST(s_fmt, VIDIOC_S_FMT, struct v4l2_format)
CV4L2_REQUEST(g_fmt, VIDIOC_G_FMT, struct v4l2_format)
CV4L2_REQUEST(g_parm, VIDIOC_G_PARM, struct v4l2_streamparm)
CV4L2_REQUEST(s_parm, VIDIOC_S_PARM, struct v4l2_streamparm)
CV4L2_REQUEST(reqbufs, VIDIOC_REQBUFS, struct v4l2_requestbuffers)
CV4L2_REQUEST(querybuf, VIDIOC_QUERYBUF, struct v4l2_buffer)
CV4L2_REQUEST(qbuf, VIDIOC_QBUF, struct v4l2_buffer)
CV4L2_REQUEST(dqbuf, VIDIOC_DQBUF, struct v4l2_buffer)
CV4L2_REQUEST(streamon, VIDIOC_STREAMON, int)
CV4L2_REQUEST(streamoff, VIDIOC_STREAMOFF, int)
CV4L2_REQUEST(queryctrl, VIDIOC_QUERYCTRL, struct v4l2_queryctrl)
CV4L2_REQUEST(g_ctrl, VIDIOC_G_CTRL, struct v4l2_control)
CV4L2_REQUEST(s_ctrl, VIDIOC_S_CTRL, struct v4l2_control)
#undef CV4L2_REQUEST

static const unsigned kCV4L2CapVideoCapture = V4L2_CAP_VIDEO_CAPTURE;
static const unsigned kCV4L2CapVideoOutput = V4L2_CAP_VIDEO_OUTPUT;
static const unsigned kCV4L2CapVideoM2M = V4L2_CAP_VIDEO_M2M | V4L2_CAP_VIDEO_M2M_MPLANE;
static const unsigned kCV4L2CapMetaCapture = V4L2_CAP_META_CAPTURE;
static const unsigned kCV4L2CapStreaming = V4L2_CAP_STREAMING;
static const unsigned kCV4L2CapDeviceCaps = V4L2_CAP_DEVICE_CAPS;

static const unsigned kCV4L2BufFlagError = V4L2_BUF_FLAG_ERROR;
static const unsigned kCV4L2BufFlagTimestampMask = V4L2_BUF_FLAG_TIMESTAMP_MASK;
static const unsigned kCV4L2BufFlagTimestampMonotonic = V4L2_BUF_FLAG_TIMESTAMP_MONOTONIC;

static const unsigned kCV4L2CtrlFlagDisabled = V4L2_CTRL_FLAG_DISABLED;
static const unsigned kCV4L2CtrlFlagReadOnly = V4L2_CTRL_FLAG_READ_ONLY;
static const unsigned kCV4L2CtrlFlagWriteOnly = V4L2_CTRL_FLAG_WRITE_ONLY;

static const unsigned kCV4L2PanAbsolute = V4L2_CID_PAN_ABSOLUTE, kCV4L2PanRelative = V4L2_CID_PAN_RELATIVE;
static const unsigned kCV4L2TiltAbsolute = V4L2_CID_TILT_ABSOLUTE, kCV4L2TiltRelative = V4L2_CID_TILT_RELATIVE;
static const unsigned kCV4L2ZoomAbsolute = V4L2_CID_ZOOM_ABSOLUTE, kCV4L2ZoomRelative = V4L2_CID_ZOOM_RELATIVE;
static const unsigned kCV4L2PanReset = V4L2_CID_PAN_RESET, kCV4L2TiltReset = V4L2_CID_TILT_RESET;
