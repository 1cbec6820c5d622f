// Tells ThreadSanitizer what Debian's Abseil, which is not instrumented, does inside of Mutex, CondVar,
// Notification and Status; without it every use of absl::Mutex is reported as a race. Linked under --config=tsan only,
// where the linker sends our calls of X to __wrap_X (system.bzl lists them) and __real_X is Abseil's own.
#include <sanitizer/tsan_interface.h>

#include <cstdint>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

#define REAL(symbol) __real__ZN##symbol
#define WRAP(symbol) __wrap__ZN##symbol
#define REAL_CONST(symbol) __real__ZNK##symbol
#define WRAP_CONST(symbol) __wrap__ZNK##symbol

extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);

void REAL(4absl7debian35MutexD1Ev)(absl::Mutex* mutex);
void REAL(4absl7debian35Mutex4LockEv)(absl::Mutex* mutex);
void REAL(4absl7debian35Mutex6UnlockEv)(absl::Mutex* mutex);
bool REAL(4absl7debian35Mutex7TryLockEv)(absl::Mutex* mutex);
void REAL(4absl7debian35Mutex10ReaderLockEv)(absl::Mutex* mutex);
void REAL(4absl7debian35Mutex12ReaderUnlockEv)(absl::Mutex* mutex);
void REAL(4absl7debian35Mutex8LockWhenERKNS0_9ConditionE)(absl::Mutex* mutex, const absl::Condition& condition);
void REAL(4absl7debian35Mutex5AwaitERKNS0_9ConditionE)(absl::Mutex* mutex, const absl::Condition& condition);
bool REAL(4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE)(absl::Mutex* mutex,
                                                                                 const absl::Condition& condition,
                                                                                 absl::Duration timeout);
bool REAL(4absl7debian35Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE)(absl::Mutex* mutex,
                                                                              const absl::Condition& condition,
                                                                              absl::Time deadline);
void REAL(4absl7debian37CondVar4WaitEPNS0_5MutexE)(absl::CondVar* variable, absl::Mutex* mutex);
bool REAL(4absl7debian37CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE)(absl::CondVar* variable,
                                                                             absl::Mutex* mutex,
                                                                             absl::Duration timeout);
bool REAL(4absl7debian37CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE)(absl::CondVar* variable, absl::Mutex* mutex,
                                                                          absl::Time deadline);
void REAL(4absl7debian312Notification6NotifyEv)(absl::Notification* notification);
void REAL_CONST(4absl7debian312Notification19WaitForNotificationEv)(const absl::Notification* notification);
bool REAL_CONST(4absl7debian312Notification30WaitForNotificationWithTimeoutENS0_8DurationE)(
    const absl::Notification* notification, absl::Duration timeout);
bool REAL_CONST(4absl7debian312Notification31WaitForNotificationWithDeadlineENS0_4TimeE)(
    const absl::Notification* notification, absl::Time deadline);
void REAL(4absl7debian36Status15UnrefNonInlinedEm)(uintptr_t status);
}

namespace {

// Marks the calling thread as one that gives the mutex up while this lives: what waiting does.
class Released {
 public:
  explicit Released(absl::Mutex* mutex) : mutex_(mutex) {
    __tsan_mutex_pre_unlock(mutex_, 0);
    __tsan_mutex_post_unlock(mutex_, 0);
  }
  Released(const Released&) = delete;
  Released& operator=(const Released&) = delete;
  ~Released() {
    __tsan_mutex_pre_lock(mutex_, 0);
    __tsan_mutex_post_lock(mutex_, 0, 0);
  }

 private:
  absl::Mutex* const mutex_;
};

// Abseil evaluates the condition of a waiter in whichever thread unlocks the mutex, after ThreadSanitizer was told that
// this thread has given it up; so what a condition reads is not looked at.
bool EvaluateUnseen(const absl::Condition* condition) {
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  const bool holds = condition->Eval();
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  return holds;
}

absl::Condition Unseen(const absl::Condition& condition) { return absl::Condition(&EvaluateUnseen, &condition); }

void* Address(const absl::Notification* notification) { return const_cast<absl::Notification*>(notification); }

}  // namespace

extern "C" {

void WRAP(4absl7debian35MutexD1Ev)(absl::Mutex* mutex) {
  __tsan_mutex_destroy(mutex, 0);
  REAL(4absl7debian35MutexD1Ev)(mutex);
}

void WRAP(4absl7debian35Mutex4LockEv)(absl::Mutex* mutex) {
  __tsan_mutex_pre_lock(mutex, 0);
  REAL(4absl7debian35Mutex4LockEv)(mutex);
  __tsan_mutex_post_lock(mutex, 0, 0);
}

void WRAP(4absl7debian35Mutex6UnlockEv)(absl::Mutex* mutex) {
  __tsan_mutex_pre_unlock(mutex, 0);
  REAL(4absl7debian35Mutex6UnlockEv)(mutex);
  __tsan_mutex_post_unlock(mutex, 0);
}

bool WRAP(4absl7debian35Mutex7TryLockEv)(absl::Mutex* mutex) {
  __tsan_mutex_pre_lock(mutex, __tsan_mutex_try_lock);
  const bool locked = REAL(4absl7debian35Mutex7TryLockEv)(mutex);
  __tsan_mutex_post_lock(mutex, locked ? __tsan_mutex_try_lock : __tsan_mutex_try_lock_failed, 0);
  return locked;
}

void WRAP(4absl7debian35Mutex10ReaderLockEv)(absl::Mutex* mutex) {
  __tsan_mutex_pre_lock(mutex, __tsan_mutex_read_lock);
  REAL(4absl7debian35Mutex10ReaderLockEv)(mutex);
  __tsan_mutex_post_lock(mutex, __tsan_mutex_read_lock, 0);
}

void WRAP(4absl7debian35Mutex12ReaderUnlockEv)(absl::Mutex* mutex) {
  __tsan_mutex_pre_unlock(mutex, __tsan_mutex_read_lock);
  REAL(4absl7debian35Mutex12ReaderUnlockEv)(mutex);
  __tsan_mutex_post_unlock(mutex, __tsan_mutex_read_lock);
}

void WRAP(4absl7debian35Mutex8LockWhenERKNS0_9ConditionE)(absl::Mutex* mutex, const absl::Condition& condition) {
  __tsan_mutex_pre_lock(mutex, 0);
  REAL(4absl7debian35Mutex8LockWhenERKNS0_9ConditionE)(mutex, Unseen(condition));
  __tsan_mutex_post_lock(mutex, 0, 0);
}

void WRAP(4absl7debian35Mutex5AwaitERKNS0_9ConditionE)(absl::Mutex* mutex, const absl::Condition& condition) {
  const Released released(mutex);
  REAL(4absl7debian35Mutex5AwaitERKNS0_9ConditionE)(mutex, Unseen(condition));
}

bool WRAP(4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE)(absl::Mutex* mutex,
                                                                                 const absl::Condition& condition,
                                                                                 absl::Duration timeout) {
  const Released released(mutex);
  return REAL(4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE)(mutex, Unseen(condition), timeout);
}

bool WRAP(4absl7debian35Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE)(absl::Mutex* mutex,
                                                                              const absl::Condition& condition,
                                                                              absl::Time deadline) {
  const Released released(mutex);
  return REAL(4absl7debian35Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE)(mutex, Unseen(condition), deadline);
}

void WRAP(4absl7debian37CondVar4WaitEPNS0_5MutexE)(absl::CondVar* variable, absl::Mutex* mutex) {
  const Released released(mutex);
  REAL(4absl7debian37CondVar4WaitEPNS0_5MutexE)(variable, mutex);
}

bool WRAP(4absl7debian37CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE)(absl::CondVar* variable,
                                                                             absl::Mutex* mutex,
                                                                             absl::Duration timeout) {
  const Released released(mutex);
  return REAL(4absl7debian37CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE)(variable, mutex, timeout);
}

bool WRAP(4absl7debian37CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE)(absl::CondVar* variable, absl::Mutex* mutex,
                                                                          absl::Time deadline) {
  const Released released(mutex);
  return REAL(4absl7debian37CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE)(variable, mutex, deadline);
}

void WRAP(4absl7debian312Notification6NotifyEv)(absl::Notification* notification) {
  __tsan_release(notification);
  REAL(4absl7debian312Notification6NotifyEv)(notification);
}

void WRAP_CONST(4absl7debian312Notification19WaitForNotificationEv)(const absl::Notification* notification) {
  REAL_CONST(4absl7debian312Notification19WaitForNotificationEv)(notification);
  __tsan_acquire(Address(notification));
}

bool WRAP_CONST(4absl7debian312Notification30WaitForNotificationWithTimeoutENS0_8DurationE)(
    const absl::Notification* notification, absl::Duration timeout) {
  const bool notified =
      REAL_CONST(4absl7debian312Notification30WaitForNotificationWithTimeoutENS0_8DurationE)(notification, timeout);
  if (notified) __tsan_acquire(Address(notification));
  return notified;
}

bool WRAP_CONST(4absl7debian312Notification31WaitForNotificationWithDeadlineENS0_4TimeE)(
    const absl::Notification* notification, absl::Time deadline) {
  const bool notified =
      REAL_CONST(4absl7debian312Notification31WaitForNotificationWithDeadlineENS0_4TimeE)(notification, deadline);
  if (notified) __tsan_acquire(Address(notification));
  return notified;
}

// A status that threads share counts its owners inside of Abseil; the last one deletes what the others have read.
void WRAP(4absl7debian36Status15UnrefNonInlinedEm)(uintptr_t status) {
  // The low bits are flags (absl/status/status.h).
  void* counted = reinterpret_cast<void*>(status & ~uintptr_t{3});
  __tsan_release(counted);
  __tsan_acquire(counted);
  REAL(4absl7debian36Status15UnrefNonInlinedEm)(status);
}

}  // extern "C"
