#pragma once
// A keyboard made by a test. ioctl() is variadic and the UI_* requests are cast macros, so Swift imports neither. -errno on failure.
#include <errno.h>
#include <fcntl.h>
#include <linux/uinput.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/// Makes a keyboard of `name` with `count` keys and gives its descriptor; the keyboard is there until that is closed. With `repeats` the kernel
/// repeats a key that is held (value 2), as it does for a real one.
static inline int cuinput_keyboard(const char *name, const unsigned short *keys, int count, int repeats) {
  int fd = open("/dev/uinput", O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return -errno;
  struct uinput_setup setup;
  memset(&setup, 0, sizeof setup);
  setup.id.bustype = BUS_USB;
  setup.id.vendor = 0x1209;
  setup.id.product = 1;
  snprintf(setup.name, sizeof setup.name, "%s", name);
  int failed = ioctl(fd, UI_SET_EVBIT, EV_KEY) < 0 || (repeats && ioctl(fd, UI_SET_EVBIT, EV_REP) < 0);
  for (int i = 0; i < count && !failed; i++) failed = ioctl(fd, UI_SET_KEYBIT, keys[i]) < 0;
  if (failed || ioctl(fd, UI_DEV_SETUP, &setup) < 0 || ioctl(fd, UI_DEV_CREATE) < 0) {
    int code = errno;
    close(fd);
    return -code;
  }
  return fd;
}

/// Presses (1) or releases (0) a key.
static inline int cuinput_key(int fd, unsigned short key, int value) {
  struct input_event events[2];
  memset(events, 0, sizeof events);
  events[0].type = EV_KEY;
  events[0].code = key;
  events[0].value = value;
  events[1].type = EV_SYN;
  return write(fd, events, sizeof events) == sizeof events ? 0 : -errno;
}
