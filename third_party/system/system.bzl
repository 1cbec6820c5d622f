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
