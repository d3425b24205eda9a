#pragma once
// Kernel and glibc interfaces that `import Glibc` does not carry. Functions that glibc hides behind _GNU_SOURCE (which the
// Clang importer does not define) are declared here; ioctl() is variadic, so each request has a function of its own.
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

struct ucred_talknode { int pid; unsigned uid; unsigned gid; };

extern int pthread_setname_np(pthread_t, const char *);
extern int accept4(int, struct sockaddr *, socklen_t *, int);
extern int pipe2(int[2], int);
extern int posix_spawn_file_actions_addclosefrom_np(posix_spawn_file_actions_t *, int);
extern int posix_spawn_file_actions_addchdir_np(posix_spawn_file_actions_t *, const char *);

// pidfd_open(2): glibc has no function for it before 2.36, and syscall() is variadic.
static inline int talknode_pidfd_open(int pid) { return (int)syscall(SYS_pidfd_open, pid, 0); }

// struct ucred is hidden behind _GNU_SOURCE; the layout is the kernel's (man 7 unix, SO_PEERCRED).
static inline int talknode_peer_credentials(int fd, struct ucred_talknode *out) {
  socklen_t n = sizeof *out;
  return getsockopt(fd, SOL_SOCKET, 17 /* SO_PEERCRED */, out, &n);
}
