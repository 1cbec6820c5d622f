"""One library of the system's package manager."""

def system_library(name, libs, deps = [], defines = [], as_needed = True, testonly = False):
    """A library that lies in the compiler's own search paths.

    Args:
      name: the target.
      libs: what the linker gets after -l, users before what they use.
      deps: other system libraries that this one's headers or archives need.
      defines: macros that its headers expect, for all users.
      as_needed: whether a program that names no symbol of it may leave it out.
      testonly: whether only tests may use it.
    """
    flags = ["-l" + lib for lib in libs]
    if flags and as_needed:
        flags = ["-Wl,--push-state,--as-needed"] + flags + ["-Wl,--pop-state"]
    native.cc_library(
        name = name,
        testonly = testonly,
        defines = defines,
        linkopts = flags,
        deps = deps,
    )

# Mangled names of Abseil's functions that absl_tsan.cc wraps.
WATCHED_BY_TSAN = [
    "_ZN4absl7debian35MutexD1Ev",
    "_ZN4absl7debian35Mutex4LockEv",
    "_ZN4absl7debian35Mutex6UnlockEv",
    "_ZN4absl7debian35Mutex7TryLockEv",
    "_ZN4absl7debian35Mutex10ReaderLockEv",
    "_ZN4absl7debian35Mutex12ReaderUnlockEv",
    "_ZN4absl7debian35Mutex8LockWhenERKNS0_9ConditionE",
    "_ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE",
    "_ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE",
    "_ZN4absl7debian35Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE",
    "_ZN4absl7debian37CondVar4WaitEPNS0_5MutexE",
    "_ZN4absl7debian37CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE",
    "_ZN4absl7debian37CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE",
    "_ZN4absl7debian312Notification6NotifyEv",
    "_ZNK4absl7debian312Notification19WaitForNotificationEv",
    "_ZNK4absl7debian312Notification30WaitForNotificationWithTimeoutENS0_8DurationE",
    "_ZNK4absl7debian312Notification31WaitForNotificationWithDeadlineENS0_4TimeE",
    "_ZN4absl7debian36Status15UnrefNonInlinedEm",
]
