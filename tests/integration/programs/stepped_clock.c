// A preloaded library with which a test sets the wall clock of single processes: the file STEPPED_CLOCK holds the
// nanoseconds, an int64_t, by which theirs is ahead of the machine's. CLOCK_MONOTONIC stays as it is. Waits until a
// time of the wall clock follow it as the kernel's do: a thread that waits when it is set waits until the new clock
// shows the time.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { kSecond = 1000000000, kSlice = 20000000 };
// No uptime is that long: a condition variable of CLOCK_MONOTONIC is waited on by the same function.
static const int64_t kLeastWallTime = INT64_C(1000000000) * kSecond;

static _Atomic int64_t none;
static _Atomic int64_t* ahead = &none;
static int (*real_gettime)(clockid_t, struct timespec*);
static int (*real_timedwait)(pthread_cond_t*, pthread_mutex_t*, const struct timespec*);
static long (*real_syscall)(long, ...);

static int64_t Ns(const struct timespec* time) { return time->tv_sec * (int64_t)kSecond + time->tv_nsec; }

static struct timespec Time(int64_t ns) { return (struct timespec){ns / kSecond, ns % kSecond}; }

__attribute__((constructor)) static void Open(void) {
  real_gettime = dlsym(RTLD_NEXT, "clock_gettime");
  real_timedwait = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
  real_syscall = dlsym(RTLD_NEXT, "syscall");
  const char* path = getenv("STEPPED_CLOCK");
  const int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  void* mapped = mmap(NULL, sizeof(*ahead), PROT_READ, MAP_SHARED, file, 0);
  if (mapped != MAP_FAILED) ahead = mapped;
  close(file);
}

int clock_gettime(clockid_t clock, struct timespec* time) {
  if (real_gettime == NULL) Open();
  const int result = real_gettime(clock, time);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) *time = Time(Ns(time) + *ahead);
  return result;
}

int gettimeofday(struct timeval* time, void* zone) {
  (void)zone;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  *time = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
  return 0;
}

time_t time(time_t* to) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (to != NULL) *to = now.tv_sec;
  return now.tv_sec;
}

// A slice of the wait until `until` on the clock that was set, as the machine's time; whether it is the last one.
static int Slice(const struct timespec* until, struct timespec* slice) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  const int64_t left = Ns(until) - Ns(&now);
  *slice = Time(Ns(&now) - *ahead + (left < kSlice ? left : kSlice));
  return left < kSlice;
}

int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const struct timespec* until) {
  if (real_timedwait == NULL) Open();
  if (Ns(until) < kLeastWallTime) return real_timedwait(condition, mutex, until);
  for (;;) {
    struct timespec slice;
    const int is_last = Slice(until, &slice);
    const int result = real_timedwait(condition, mutex, &slice);
    if (result != ETIMEDOUT || is_last) return result;
  }
}

long syscall(long number, ...) {
  if (real_syscall == NULL) Open();
  long given[6];
  va_list arguments;
  va_start(arguments, number);
  for (int i = 0; i < 6; ++i) given[i] = va_arg(arguments, long);
  va_end(arguments);
  const int waits = number == SYS_futex && (given[1] & FUTEX_CLOCK_REALTIME) != 0 && given[3] != 0;
  if (!waits) return real_syscall(number, given[0], given[1], given[2], given[3], given[4], given[5]);
  for (;;) {
    struct timespec slice;
    const int is_last = Slice((const struct timespec*)given[3], &slice);
    const long result = real_syscall(number, given[0], given[1], given[2], &slice, given[4], given[5]);
    if (result == 0 || errno != ETIMEDOUT || is_last) return result;
  }
}
