#pragma once
// libv4lconvert, opened at run time: types come from its header, functions from this table, and nothing is linked. `cv4lconvert_load` fills
// the table by dlsym from an open handle.
#include <dlfcn.h>
#include <errno.h>
#include <libv4l-plugin.h>
#include <libv4lconvert.h>
#include <string.h>

#define CV4LCONVERT_FUNCTIONS(X) \
  X(v4lconvert_create_with_dev_ops) X(v4lconvert_destroy) X(v4lconvert_convert) X(v4lconvert_get_error_message)

struct cv4lconvert {
#define X(name) __typeof__(&name) name;
  CV4LCONVERT_FUNCTIONS(X)
#undef X
};

/// Fills `table`; the name of the first function that the library lacks, or NULL when all are there.
static inline const char *cv4lconvert_load(struct cv4lconvert *table, void *handle) {
#define X(name) if (!(table->name = (__typeof__(&name))dlsym(handle, #name))) return #name;
  CV4LCONVERT_FUNCTIONS(X)
#undef X
  return 0;
}

// The library wants a device to ask for its controls, and adds some of its own in shared memory where it has none. Frames are converted here
// without one: this answers like a device that has all it asks about, and nothing to say.
static inline int cv4lconvert_no_device(void *self, int fd, unsigned long request, void *argument) {
  (void)self, (void)fd;
  if (request == VIDIOC_QUERYCAP) {
    memset(argument, 0, sizeof(struct v4l2_capability));
    return 0;
  }
  if (request == VIDIOC_QUERYCTRL) {
    __u32 id = ((struct v4l2_queryctrl *)argument)->id;
    memset(argument, 0, sizeof(struct v4l2_queryctrl));
    ((struct v4l2_queryctrl *)argument)->id = id;
    return 0;
  }
  errno = EINVAL;
  return -1;
}

/// A converter without a device; NULL when there is no memory for one.
static inline struct v4lconvert_data *cv4lconvert_make(const struct cv4lconvert *table) {
  static const struct libv4l_dev_ops none = {.ioctl = cv4lconvert_no_device};
  return table->v4lconvert_create_with_dev_ops(-1, 0, &none);
}
