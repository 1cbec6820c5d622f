"""Builds farandole/_native.abi3.so, the bridge between Python and libfarandole.so.

    python sdk/python/build_native.py [--force]

The bridge opens libfarandole.so at run time into a scope of its own (RTLD_DEEPBIND), so that the library's gRPC and
protobuf never meet those of a framework, and calls it through a table of function pointers. The build derives
Python's view from worker/farandole.h and farandole_client.h; nothing of these headers is repeated here. One build serves CPython 3.9 and later.
Calls that must be fast are functions of their own, in direct_calls.c.
Does nothing when the bridge is newer than the headers, that file and this one.
"""

import argparse
import os
import pathlib
import re
import sys
import tempfile
from typing import List, NamedTuple

PACKAGE = pathlib.Path(__file__).resolve().parent / "farandole"
HEADERS = [PACKAGE.parents[2] / "worker" / name for name in ("farandole.h", "farandole_client.h")]
DIRECT_CALLS = PACKAGE.parent / "direct_calls.c"
TARGET = PACKAGE / "_native.abi3.so"

# A submission also writes its handle where its caller says: a signal's handler may raise before the result has a name in
# Python, and may submit something itself before that.
SUBMITTED = ", farandole_handle* submitted"

# In Python an address is a number (tensor.data_ptr()); a cast to void* would cost more than the call.
ADDRESS = re.compile(r"(?:const )?void\* (?=input\b|output\b|stream\b)")


class Prototype(NamedTuple):
    """One function of the header: `int farandole_poll(farandole_handle handle)`."""

    result: str
    name: str
    arguments: str  # as in the header; "void" where there are none

    def in_python(self) -> str:
        """The declaration that Python calls: addresses are numbers."""
        arguments = ADDRESS.sub("uintptr_t ", self.arguments)
        return f"{self.result} {self.name}({arguments}{SUBMITTED if self.submits() else ''})"

    def submits(self) -> bool:
        """Whether its result is a handle."""
        return self.result == "farandole_handle"

    def pointer(self) -> str:
        """The entry in the table of function pointers."""
        return f"{self.result} (*{self.name})({self.arguments});"

    def wrapper(self) -> str:
        """A C function of the same name that calls through the table."""
        passed = []
        for argument in self.arguments.split(","):
            callback = re.search(r"\(\*(\w+)\)", argument)
            name = callback.group(1) if callback else argument.split()[-1].lstrip("*")
            if name != "void":
                passed.append(f"(void*){name}" if ADDRESS.match(argument.strip()) else name)
        call = f"table.{self.name}({', '.join(passed)})"
        if self.submits():
            call = f"*submitted = {call}"
        return f"static {self.in_python()} {{ {'' if self.result == 'void' else 'return '}{call}; }}"


class Interface(NamedTuple):
    """The declarations of the headers."""

    types: str
    functions: List[Prototype]
    abi_version: int


def read_interface(header: str) -> Interface:
    """Takes the headers apart, which are given one after the other. Raises ValueError if it has a form that this script does not know."""
    version = re.search(r"#define FARANDOLE_ABI_VERSION (\d+)", header)
    if version is None:
        raise ValueError("worker/farandole.h does not define FARANDOLE_ABI_VERSION")
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    text = re.sub(r"#ifdef __cplusplus.*?#endif", "", text, flags=re.DOTALL)
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)
    functions = []
    for declaration in re.findall(r"FARANDOLE_EXPORT\s+([^;]*);", text):
        parts = re.fullmatch(r"(.*?)\s*\b(farandole_\w+)\((.*)\)", " ".join(declaration.split()))
        if parts is None:
            raise ValueError(f"worker/farandole.h: this declaration is not understood: {declaration}")
        functions.append(Prototype(*parts.groups()))
    types = re.sub(r"FARANDOLE_EXPORT[^;]*;", "", text)
    return Interface(re.sub(r"\n\s*\n+", "\n", types), functions, int(version.group(1)))


LOADER = """
/* Opens the library at `path` and fills the table. NULL: done; else the reason, valid until the next call. */
static const char* farandole_native_load(const char* path, int deepbind) {
  static char reason[512];
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL | (deepbind ? RTLD_DEEPBIND : 0));
  if (library == NULL) {
    snprintf(reason, sizeof reason, "%s", dlerror());
    return reason;
  }
  for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; ++i) {
    *symbols[i].slot = dlsym(library, symbols[i].name);
    if (*symbols[i].slot == NULL) {
      snprintf(reason, sizeof reason, "it lacks the function %s", symbols[i].name);
      return reason;
    }
  }
  return NULL;
}
"""

NATIVE_DECLARATIONS = """
const char* farandole_native_load(const char* path, int deepbind);
uintptr_t farandole_native_direct(const char* name);
extern "Python" int farandole_native_interrupted(void);
"""


def c_source(interface: Interface) -> str:
    """The bridge in C."""
    names = [function.name for function in interface.functions]
    return "\n".join(
        [
            "#include <dlfcn.h>",
            "#include <stdint.h>",
            "#include <stdio.h>",
            "#include <string.h>",
            f"#define FARANDOLE_ABI_VERSION {interface.abi_version}",
            interface.types,
            "static struct {",
            *[function.pointer() for function in interface.functions],
            "} table;",
            "static const struct { const char* name; void** slot; } symbols[] = {",
            *[f'  {{"{name}", (void**)&table.{name}}},' for name in names],
            "};",
            *[function.wrapper() for function in interface.functions],
            LOADER,
            DIRECT_CALLS.read_text(encoding="utf-8"),
        ]
    )


def python_declarations(interface: Interface) -> str:
    """The same for cffi's cdef."""
    functions = "\n".join(f"{function.in_python()};" for function in interface.functions)
    return f"#define FARANDOLE_ABI_VERSION ...\n{interface.types}\n{functions}\n{NATIVE_DECLARATIONS}"


def build() -> None:
    """Compiles the bridge beside the package; an interrupted build leaves the old one."""
    import cffi

    interface = read_interface("\n".join(header.read_text(encoding="utf-8") for header in HEADERS))
    ffi = cffi.FFI()
    ffi.cdef(python_declarations(interface))
    ffi.set_source(
        "farandole._native",
        c_source(interface),
        py_limited_api=True,
        libraries=["dl"],
        define_macros=[("_GNU_SOURCE", None)],
        extra_compile_args=["-O2", "-fvisibility=hidden"],
    )
    with tempfile.TemporaryDirectory(prefix="farandole-native-", dir=PACKAGE) as directory:
        built = ffi.compile(tmpdir=directory, verbose=False)
        os.replace(built, TARGET)


def main() -> int:
    parser = argparse.ArgumentParser(description="Build farandole/_native.abi3.so.")
    parser.add_argument("--force", action="store_true", help="build even when nothing has changed")
    options = parser.parse_args()
    sources = max(path.stat().st_mtime for path in (*HEADERS, DIRECT_CALLS, pathlib.Path(__file__)))
    if not options.force and TARGET.exists() and TARGET.stat().st_mtime > sources:
        return 0
    try:
        build()
    except ImportError:
        print(f"build_native: {sys.executable} has no cffi; run `make install`, or `pip install cffi`", file=sys.stderr)
        return 1
    except ValueError as error:
        print(f"build_native: {error}", file=sys.stderr)
        return 1
    except Exception as error:  # pylint: disable=broad-except; the compiler's trouble comes in several kinds
        print(
            f"build_native: the bridge does not compile ({error}); it needs gcc and the headers of {sys.executable} "
            "(Debian: apt-get install gcc python3-dev)",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
