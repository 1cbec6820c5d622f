"""docs/style.md's guides as rules over one file each. Every message names the replacement."""

import fnmatch
import re
from typing import Callable, Dict, Iterator, List, NamedTuple, Tuple

from functions import function_spans
from prose import sentences
from sources import Finding, Source, line_of

MAX_FUNCTION_LINES = 70
MAX_FILE_LINES = 500

Rule = Callable[[Source], Iterator[Finding]]


class Owned(NamedTuple):
    """Headers of a library and the only files that may include them."""

    headers: str
    owners: List[str]


# The rest of the code sees our own types.
LIBRARIES = [
    Owned(
        r"grpc(?:pp|\+\+)?/|[\w/]+\.grpc\.pb\.h",
        ["server/edge/*", "server/testing/*", "server/*_test.cc", "worker/control/*", "deploy/cli/*", "tests/*"],
    ),
    Owned(r"rocksdb/", ["server/store/rocksdb_*", "server/store/offline_reader.cc"]),
    Owned(r"gloo/", ["worker/transport/gloo/*"]),
    Owned(r"pmix\w*\.h", ["worker/launch/pmix_exchange.cc"]),
    Owned(r"yaml-cpp/", ["deploy/cli/config_file.cc", "server/identity/identity_config.cc"]),
    Owned(r"cjose/", ["server/identity/key_set.cc"]),
    Owned(r"elfutils/", ["deploy/stacks/unwinder.*"]),
    Owned(r"nccl\.h", ["worker/device/declarations_check.cc"]),
]

# Which top-level folders a folder's C++ may include; dependencies point one way. Folders that are not listed may include all.
LAYERS: Dict[str, List[str]] = {
    "base": [],
    "checkpoint": ["base"],
    "server": ["base", "checkpoint", "web"],
    "worker": ["base", "checkpoint"],
    "sdk": ["base", "worker"],
    "web": ["base"],
}
OUR_FOLDERS = ["base", "checkpoint", "server", "worker", "sdk", "web", "deploy", "tests", "examples"]

# Decides purely: what it needs from the world comes in as an event. Its tests may read their scripts.
PURE = ["server/job/*", "checkpoint/gate.*"]
PURE_EXCEPT = ["*_test.cc", "*/script*", "*/scenario*"]

# Reading the environment elsewhere than in a program's options, with the reason.
ENVIRONMENT_READERS: Dict[str, str] = {
    "*/options.cc": "a program's settings",
    "*/*_options.cc": "a program's settings",
    "*/options.py": "a program's settings",
    "*/_options.py": "a program's settings",
    "sdk/cpp/farandole/options.h": "the C++ SDK's settings",
    "sdk/cpp/farandole/client_options.h": "the settings of its client, and a source of tokens",
    "sdk/go/farandole/options.go": "the Go SDK's settings",
    "sdk/python/farandole/_dropin/horovod/_keras_choice.py": "TensorFlow's own switch between its two Keras",
    "sdk/go/client/options.go": "the settings of its client",
    "sdk/go/client/token.go": "a source of tokens",
    "worker/control/coordinator_channel.cc": "gRPC has no other switch for its fork support; puts the variable back",
    "worker/launch/process_environment.cc": "finds it where RTLD_DEEPBIND hides it, for the table and the coordinator that is started",
    "tests/*": "starts programs with an environment of its own",
    "tools/*": "not part of the product",
}

# Sleeping elsewhere is waiting by polling. Each with the reason.
SLEEPERS: Dict[str, str] = {
    "sdk/python/farandole/tensorflow/data/compute_service.py": "nothing tells of a file that another host makes on a shared disk",
    "worker/device/nccl/nccl_communicator.cc": "NCCL has nothing that could be waited for: its state can only be asked for",
    "tests/integration/programs/ends_before_init.py": "nothing tells when another's child has been reaped",
}

WORDS = r"Manager|Handler|Helper|Utils?|Common|Impl|Info"


def _is_any(path: str, patterns: "Dict[str, str] | List[str]") -> bool:
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)


def named_types(source: Source) -> Iterator[Tuple[str, str]]:
    """The types that a C++ file defines at the level of a namespace that has a name: (namespace, type)."""
    if source.language != "cpp":
        return
    inner = re.compile(
        r"^(?:(?:inline )?namespace (?P<space>[\w:]*) ?\{|\}  // namespace|(?:struct|class|enum class) (?P<type>\w+)(?: final)?(?: :.*)? \{)",
        re.MULTILINE,
    )
    spaces: List[str] = []
    for found in inner.finditer(source.text):
        if found["type"]:
            if "" not in spaces:
                yield "::".join(spaces), found["type"]
        elif found["space"] is not None:
            spaces.append(found["space"])
        elif spaces:
            spaces.pop()


def functions_are_short(source: Source) -> Iterator[Finding]:
    """A function fits on a screen or two."""
    for span in function_spans(source):
        if span.length > MAX_FUNCTION_LINES:
            yield source.finding(
                span.first,
                f"{span.name} has {span.length} lines, {MAX_FUNCTION_LINES} are allowed; give its steps names of their own",
            )


def files_are_short(source: Source) -> Iterator[Finding]:
    """A file holds one idea."""
    if source.language and len(source.lines) > MAX_FILE_LINES:
        yield source.finding(
            MAX_FILE_LINES + 1,
            f"the file has {len(source.lines)} lines, {MAX_FILE_LINES} are allowed; "
            "move its second idea to a file of its own",
        )


def guard_of(path: str) -> str:
    """The include guard of a header."""
    return "FARANDOLE_" + re.sub(r"[^A-Z0-9]", "_", path.upper()) + "_"


def headers_have_guards(source: Source) -> Iterator[Finding]:
    """A header's first directives are its guard, named after its path."""
    guard = guard_of(source.path)
    directives = re.findall(r"^[ \t]*#[ \t]*(\w+[ \t]*\S*)", source.uncommented, re.MULTILINE)
    if source.path.endswith(".h") and directives[:2] != [f"ifndef {guard}", f"define {guard}"]:
        yield source.finding(1, f"begin the header with #ifndef {guard} and #define {guard}")


def conditions_are_guards(source: Source) -> Iterator[Finding]:
    """The preprocessor decides nothing but include guards; C headers also ask for __cplusplus."""
    if source.language != "cpp":
        return
    for found in re.finditer(r"^[ \t]*#[ \t]*(?:if|ifdef|ifndef|elif|else)\b.*", source.code, re.MULTILINE):
        words = found.group().replace("#", " ").split()
        if source.path.endswith(".h") and words in (["ifndef", guard_of(source.path)], ["ifdef", "__cplusplus"]):
            continue
        yield source.finding(
            line_of(source.code, found.start()),
            f"{found.group().strip()}: let the build choose between x.cc and no_x.cc instead",
        )


def _includes(source: Source) -> Iterator["re.Match[str]"]:
    if source.language == "cpp":
        yield from re.finditer(r"^[ \t]*#[ \t]*include[ \t]*[<\"]([^>\"\n]+)[>\"]", source.uncommented, re.MULTILINE)


def libraries_have_owners(source: Source) -> Iterator[Finding]:
    """A large library is included only where its types become ours."""
    for include in _includes(source):
        for library in LIBRARIES:
            if re.match(library.headers, include.group(1)) and not _is_any(source.path, library.owners):
                yield source.finding(
                    line_of(source.uncommented, include.start()),
                    f"{include.group(1)} may be included in {', '.join(library.owners)} only; use the types of those files",
                )


def layers_point_one_way(source: Source) -> Iterator[Finding]:
    """server and worker never include each other, and so on down LAYERS."""
    folder = source.path.split("/")[0]
    if folder not in LAYERS:
        return
    for include in _includes(source):
        other = include.group(1).split("/")[0]
        if other in OUR_FOLDERS and other != folder and other not in LAYERS[folder]:
            yield source.finding(
                line_of(source.uncommented, include.start()),
                f"{folder}/ may not include {include.group(1)}; move what both need to base/ or say it in proto/",
            )


_IMPURE_HEADERS = re.compile(
    r"(?:fstream|iostream|cstdio|stdio\.h|filesystem|thread|mutex|condition_variable|future|chrono|ctime|time\.h|random|unistd\.h"
    r"|pthread\.h|sys/.*|fcntl\.h|absl/time/clock\.h|absl/synchronization/.*|spdlog/.*|boost/.*|grpc.*|rocksdb/.*|.*\.grpc\.pb\.h)$"
)
_IMPURE_CALLS = re.compile(
    r"\babsl::Now\b|\b\w+_clock::now\b|\bclock_gettime\b|\bgetenv\b|\bstd::(?:i|o)?fstream\b|\bthread_local\b|\bstd::random_device\b"
)


def pure_code_does_no_io(source: Source) -> Iterator[Finding]:
    """The job core has no clock, no thread, no disk, no network."""
    if not _is_any(source.path, PURE) or _is_any(source.path, PURE_EXCEPT):
        return
    for include in _includes(source):
        if _IMPURE_HEADERS.match(include.group(1)):
            yield source.finding(
                line_of(source.uncommented, include.start()),
                f"pure code does not include {include.group(1)}; take what it needs from an event, and give back an action",
            )
    yield from source.matches(
        _IMPURE_CALLS,
        source.code,
        "{0}: pure code takes time and settings from its event; the shell carries out the actions",
    )


_ENVIRONMENT = {
    "cpp": re.compile(r"\b(?:secure_)?getenv\b|\benviron\b"),
    "python": re.compile(r"\bos\.(?:environ\b|getenv\b)"),
    "go": re.compile(r"\bos\.(?:Getenv|LookupEnv|Environ)\b"),
}


def options_read_the_environment(source: Source) -> Iterator[Finding]:
    """One table of settings per program is the only reader of the environment."""
    pattern = _ENVIRONMENT.get(source.language)
    if pattern and not _is_any(source.path, ENVIRONMENT_READERS):
        yield from source.matches(
            pattern, source.code, "{0}: read the environment in the program's options file, and pass the value on"
        )


_SLEEPING = {
    "cpp": re.compile(r"\bsleep_(?:for|until)\b|\bu?sleep\s*\(|\b(?:clock_)?nanosleep\b|\bSleepFor\b"),
    "python": re.compile(r"\btime\.sleep\b|\bfrom time import[^\n]*\bsleep\b"),
    "go": re.compile(r"\btime\.Sleep\b"),
}


def nothing_sleeps_to_wait(source: Source) -> Iterator[Finding]:
    """Waiting ends with the event that it waits for."""
    pattern = _SLEEPING.get(source.language)
    if pattern and not _is_any(source.path, SLEEPERS):
        yield from source.matches(
            pattern, source.code, "{0}: wait for the event itself (condition, futex, poll, read), with a deadline"
        )


_TYPE_NAME = {
    "cpp": re.compile(
        r"\b(?:class|struct|union|enum(?:\s+class)?|using|concept)\s+(?:\[\[\w+\]\]\s*)?(\w+)(?=\s*(?:final\b|[:={;<]|$))",
        re.M,
    ),
    "python": re.compile(r"^[ \t]*class\s+(\w+)", re.M),
    "proto": re.compile(r"^[ \t]*(?:message|enum|service)\s+(\w+)", re.M),
    "go": re.compile(r"^type\s+(\w+)", re.M),
}
_VAGUE = re.compile(rf"(?:^|[a-z0-9_])(?:{WORDS})(?![a-z])|_v2$")


# Names that programs for Horovod use, and derive from.
_HOROVODS = re.compile(r"StateHandler$|CallbackImpl$|^LocalGradientAggregationHelper(?:Eager)?$")


def type_names_say_something(source: Source) -> Iterator[Finding]:
    """Types are the ten words of docs/architecture.md or plain nouns."""
    pattern = _TYPE_NAME.get(source.language)
    for found in pattern.finditer(source.code) if pattern else []:
        if _VAGUE.search(found.group(1)) and not _HOROVODS.search(found.group(1)):
            yield source.finding(
                line_of(source.code, found.start(1)),
                f"{found.group(1)}: name the type by what it is (one of the ten words or a plain noun)",
            )


_UNFINISHED = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b|\bfor now\b")


def nothing_is_left_for_later(source: Source) -> Iterator[Finding]:
    """A gap is an issue, not a comment."""
    if not source.path.startswith("tests/tidy/"):
        yield from source.matches(
            _UNFINISHED, source.text, "{0}: finish it, or file an issue and say here what holds today"
        )


_MACHINE_PATH = re.compile(r"(?<![\w.$}/-])/(?:work|root)/[\w.-]+")


def paths_are_not_of_one_machine(source: Source) -> Iterator[Finding]:
    """A clone works wherever it lies."""
    if not source.path.startswith("tests/tidy/"):
        yield from source.matches(
            _MACHINE_PATH, source.text, "{0}: a path of one machine; make it relative or a setting"
        )


_INVERTED = re.compile(
    r"(?:Who|Whoever|Whose|Whosever|Whom|Whomever|What|Whatever|Whichever|That which"
    r"|(?:Those|They|He|Anybody|Anyone|Everybody|Everyone|Nobody|None|Somebody|Someone|One|All) (?:who|whose|whom)) "
)


def sentences_name_who_acts(source: Source) -> Iterator[Finding]:
    """A sentence begins with its subject, not with a clause that stands for it."""
    for sentence in sentences(source):
        if _INVERTED.match(sentence.text) and not sentence.text.endswith("?"):
            yield source.finding(
                sentence.line,
                f"{sentence.text[:60]}: name the thing that acts, and begin with it (docs/style.md, English)",
            )


RULES: List[Rule] = [
    functions_are_short,
    files_are_short,
    headers_have_guards,
    conditions_are_guards,
    libraries_have_owners,
    layers_point_one_way,
    pure_code_does_no_io,
    options_read_the_environment,
    nothing_sleeps_to_wait,
    type_names_say_something,
    nothing_is_left_for_later,
    paths_are_not_of_one_machine,
    sentences_name_who_acts,
]
