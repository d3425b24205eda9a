#pragma once
// Keys from evdev. ioctl() is variadic and the EVIOC* requests are cast macros with a size inside, so Swift imports neither: one
// function per request, -errno on failure.
#include <errno.h>
#include <linux/input.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>

#define CINPUT_KEY_BYTES ((KEY_MAX + 8) / 8)

static inline int cinput_ioctl(int fd, unsigned long request, void *argument) {
  int result;
  do result = ioctl(fd, request, argument);
  while (result == -1 && errno == EINTR);
  return result == -1 ? -errno : result;
}
/// The device's name, cut to `size` bytes with its end mark.
static inline int cinput_name(int fd, char *out, unsigned size) { return cinput_ioctl(fd, EVIOCGNAME(size), out); }
/// Which keys the device has: one bit a code, CINPUT_KEY_BYTES bytes.
static inline int cinput_keys(int fd, unsigned char *out) { return cinput_ioctl(fd, EVIOCGBIT(EV_KEY, CINPUT_KEY_BYTES), out); }
/// Which keys are down at this moment, in the same form.
static inline int cinput_keys_down(int fd, unsigned char *out) { return cinput_ioctl(fd, EVIOCGKEY(CINPUT_KEY_BYTES), out); }
static const int cinput_key_bytes = CINPUT_KEY_BYTES;
