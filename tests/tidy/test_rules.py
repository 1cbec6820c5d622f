"""Each rule finds what it forbids, and only that."""

from typing import List

import folders
import pytest
import rules
from classes import Size, class_sizes, repeated_classes
from functions import function_spans
from sources import Finding, Source


def found(rule: rules.Rule, path: str, text: str) -> List[Finding]:
    """The findings of one rule in one file."""
    return list(rule(Source(path, text)))


def lines(rule: rules.Rule, path: str, text: str) -> List[int]:
    """The lines of the findings."""
    return [finding.line for finding in found(rule, path, text)]


def cpp_function(signature: str, count: int) -> str:
    """A C++ function of `count` lines."""
    return "\n".join([signature + " {", *["  Step();"] * (count - 2), "}", ""])


@pytest.mark.parametrize(
    "signature",
    [
        "void Run()",
        "absl::StatusOr<int> Job::Run(int a, const B& b) const",
        "template <typename T>\nvoid Run(T t) noexcept",
        "Job::Job(int a) : a_{a}, b_(a), c_{}",
        "struct timespec Until(absl::Time t)",
        "TEST(JobTest, Runs)",
        "void Run(std::vector<int> a = {})",
    ],
)
def test_a_function_of_71_lines_is_too_long(signature: str) -> None:
    extra = signature.count("\n")
    assert not found(rules.functions_are_short, "base/a.cc", cpp_function(signature, 70 - extra))
    assert lines(rules.functions_are_short, "base/a.cc", "\n" + cpp_function(signature, 71 - extra)) == [2]


def test_a_method_is_measured_and_its_class_is_not() -> None:
    methods = "".join(cpp_function(f"void Step{i}()", 40) for i in range(5))
    assert not found(
        rules.functions_are_short, "base/a.cc", f"namespace a {{\nclass Job : B {{\n public:\n{methods}}};\n}}"
    )
    text = "class Job {\n public:\n" + cpp_function("void Run()", 80) + "};\n"
    assert lines(rules.functions_are_short, "base/a.cc", text) == [2 + 1]


def test_a_class_is_measured_with_its_functions_elsewhere() -> None:
    header = """namespace a {
class Job : public B {
 public:
  Job(const Job&) = delete;
  explicit Job(int a) : a_(a) {}
  struct Row {
    int Size() const { return 1; }
    int size = 0;
  };
  using Step = std::function<void()>;
  void Run(std::vector<int> a = {});
  bool operator==(const Job& other) const;

 private:
  const std::function<bool(int)> done_;
  int a_ = 0;
};
}
"""
    sources = [
        Source("server/job.h", header),
        Source("server/job.cc", "namespace a {\n" + cpp_function("void Job::Run(std::vector<int> a)", 20) + "}\n"),
        Source("sdk/cpp/job.h", "class Job {\n  void Other();\n};\n"),
    ]
    sizes = class_sizes(sources)
    assert sizes["server Job"] == Size(methods=3, lines=16 - 4 + 20)
    assert sizes["server Job::Row"] == Size(methods=1, lines=4)
    assert sizes["sdk/cpp Job"] == Size(methods=1, lines=3)


def test_a_class_name_in_two_headers_is_found() -> None:
    notice = "class Notice {\n  void Tell();\n};\nclass Ahead;\n"
    sources = [
        Source(path, notice) for path in ("server/notice.h", "worker/notice.h", "sdk/cpp/notice.h", "worker/a.cc")
    ]
    assert repeated_classes(sources) == {"Notice": ["server/notice.h", "worker/notice.h"]}


def test_braces_in_comments_strings_and_macros_are_no_blocks() -> None:
    text = (
        '#define OPEN(x) \\\n  { x\n// {\nconst char* a = "{{" R"x({ ) )x";\nchar b = \'{\';\nint n = 1\'000;\n'
        + cpp_function("void F()", 5)
    )
    spans = function_spans(Source("base/a.cc", text))
    assert [(span.name, span.length) for span in spans] == [("F", 5)]


def test_a_table_is_no_function() -> None:
    rows = "\n".join(f'  {{"{i}", Make({i})}},' for i in range(90))
    assert not found(rules.functions_are_short, "base/a.cc", f"constexpr Row kRows[] = {{\n{rows}\n}};\n")


def test_a_python_function_of_71_lines_is_too_long() -> None:
    text = "def run():\n" + "    step()\n" * 70
    assert lines(rules.functions_are_short, "tests/a.py", text) == [1]
    assert not found(rules.functions_are_short, "tests/a.py", text[: -len("    step()\n")])


@pytest.mark.parametrize(
    "signature", ["func Run()", "func (j *Job) Run(given ...Option) error", "func Run[T Number]()"]
)
def test_a_go_function_of_71_lines_is_too_long(signature: str) -> None:
    text = f"package a\n\n{signature} {{\n" + "\tif step() {\n\t}\n" * 34 + "\tstep()\n}\n"
    assert lines(rules.functions_are_short, "a.go", text) == [3]
    assert not found(rules.functions_are_short, "a.go", text.replace("\tstep()\n}", "}"))


@pytest.mark.parametrize("path", ["base/a.cc", "a.py", "proto/a.proto", "tools/a.sh", "web/a.ts", "web/a.tsx"])
def test_a_file_of_501_lines_is_too_long(path: str) -> None:
    assert not found(rules.files_are_short, path, "x\n" * 500)
    assert lines(rules.files_are_short, path, "x\n" * 501) == [501]


def test_a_header_without_its_own_guard_is_found() -> None:
    guarded = "// What it is.\n#ifndef FARANDOLE_SERVER_JOB_JOB_H_\n#define FARANDOLE_SERVER_JOB_JOB_H_\n#endif\n"
    assert not found(rules.headers_have_guards, "server/job/job.h", guarded)
    for path, text in [("server/job/job.h", "#pragma once\n"), ("server/job/state.h", guarded)]:
        assert lines(rules.headers_have_guards, path, text) == [1]


def test_conditions_of_the_preprocessor_are_found() -> None:
    text = "#ifndef FARANDOLE_WORKER_FARANDOLE_H_\n#ifdef __cplusplus\n#endif\n#if defined(__AVX2__)\n#else\n#endif\n#endif\n"
    assert lines(rules.conditions_are_guards, "worker/farandole.h", text) == [4, 5]
    assert lines(rules.conditions_are_guards, "worker/a.cc", "#ifdef __cplusplus\n#endif\n") == [1]
    assert not found(rules.conditions_are_guards, "worker/a.cc", "/*\n#if 0\n*/\n")


@pytest.mark.parametrize(
    "path, header",
    [
        ("server/registry/registry.h", "grpcpp/server.h"),
        ("worker/engine/engine.cc", "farandole/v1/worker.grpc.pb.h"),
        ("server/store/store.h", "rocksdb/db.h"),
        ("worker/engine/engine.cc", "gloo/context.h"),
        ("worker/transport/shm/shm_transport.cc", "nccl.h"),
    ],
)
def test_a_library_outside_of_its_files_is_found(path: str, header: str) -> None:
    assert lines(rules.libraries_have_owners, path, f'\n#include "{header}"\n') == [2]
    assert lines(rules.libraries_have_owners, path, f"#include <{header}>\n") == [1]
    assert not found(rules.libraries_have_owners, path, f'// #include "{header}"\n')


def test_a_library_in_its_own_files_is_allowed() -> None:
    assert not found(rules.libraries_have_owners, "server/edge/worker_service.cc", '#include "grpcpp/server.h"\n')
    assert not found(rules.libraries_have_owners, "server/store/rocksdb_store.cc", '#include "rocksdb/db.h"\n')


def test_server_and_worker_do_not_include_each_other() -> None:
    assert lines(
        rules.layers_point_one_way, "server/a.cc", '#include "base/check.h"\n#include "worker/core/clock.h"\n'
    ) == [2]
    assert lines(rules.layers_point_one_way, "worker/a.cc", '#include "server/job/job.h"\n') == [1]
    assert not found(rules.layers_point_one_way, "server/a.cc", '#include "checkpoint/gate.h"\n#include <thread>\n')
    assert not found(rules.layers_point_one_way, "deploy/a.cc", '#include "server/a.h"\n#include "worker/a.h"\n')


@pytest.mark.parametrize(
    "text",
    [
        "#include <fstream>\n",
        "#include <thread>\n",
        '#include "absl/time/clock.h"\n',
        '#include "grpcpp/grpcpp.h"\n',
        "auto now = absl::Now();\n",
        "auto now = std::chrono::steady_clock::now();\n",
        'auto home = getenv("HOME");\n',
    ],
)
def test_the_job_core_does_no_io(text: str) -> None:
    assert lines(rules.pure_code_does_no_io, "server/job/members/lobby.cc", text) == [1]
    assert not found(rules.pure_code_does_no_io, "server/edge/lobby.cc", text)
    assert not found(rules.pure_code_does_no_io, "server/job/members/lobby.cc", "// " + text)


def test_the_environment_is_read_in_options_only() -> None:
    assert lines(rules.options_read_the_environment, "worker/a.cc", 'std::getenv("HOME");\n') == [1]
    assert lines(rules.options_read_the_environment, "sdk/python/a.py", 'import os\nos.environ["HOME"]\n') == [2]
    assert not found(rules.options_read_the_environment, "worker/launch/options.cc", 'std::getenv("HOME");\n')
    assert not found(rules.options_read_the_environment, "sdk/python/farandole/_options.py", "os.environ\n")
    assert not found(rules.options_read_the_environment, "worker/a.cc", "std::fegetenv(&saved);\n")
    assert not found(rules.options_read_the_environment, "a.py", '"""Reads no os.environ."""  # os.environ\n')


@pytest.mark.parametrize(
    "path, text",
    [
        ("a.cc", "std::this_thread::sleep_for(d);\n"),
        ("a_test.cc", "usleep(10);\n"),
        ("a.cc", "::nanosleep(&t, nullptr);\n"),
        ("a.cc", "absl::SleepFor(d);\n"),
        ("tests/a.py", "time.sleep(1)\n"),
        ("tests/a.py", "from time import sleep\n"),
    ],
)
def test_sleeping_is_found(path: str, text: str) -> None:
    assert lines(rules.nothing_sleeps_to_wait, path, text) == [1]


@pytest.mark.parametrize(
    "path, text",
    [
        ("a.h", "class EpochManager {\n"),
        ("a.h", "struct PeerInfo;\n"),
        ("a.h", "class EngineImpl final : public Engine {\n"),
        ("a.h", "enum class HelperKind {\n"),
        ("a.h", "class Job_v2 {\n"),
        ("a.h", "using RequestHandler = int;\n"),
        ("a.py", "class StringUtils:\n"),
        ("a.proto", "message CommonHeader {\n"),
    ],
)
def test_a_vague_type_name_is_found(path: str, text: str) -> None:
    assert lines(rules.type_names_say_something, path, text) == [1]


def test_a_plain_noun_is_allowed() -> None:
    text = "class Information {\nstruct Implication;\n// class JobManager\nclass Commonwealth {\nutils::Run();\nstruct sysinfo memory;\n"
    assert not found(rules.type_names_say_something, "a.h", text)


@pytest.mark.parametrize("text", ["// TODO: more\n", "# FIXME\n", "/* XXX */\n", "// enough for now\n"])
def test_what_is_left_for_later_is_found(text: str) -> None:
    assert lines(rules.nothing_is_left_for_later, "a.cc", text) == [1]
    assert not found(rules.nothing_is_left_for_later, "a.sh", "mktemp /tmp/a.XXXXXX\n")


def test_a_path_of_one_machine_is_found() -> None:
    assert lines(rules.paths_are_not_of_one_machine, "a.sh", "cd /work/main\n") == [1]
    assert not found(rules.paths_are_not_of_one_machine, "a.sh", 'cd "$ROOT/work/main"; cd network/work/x\n')


def test_types_at_the_level_of_a_named_namespace_are_found() -> None:
    text = """namespace farandole::a {
namespace {
struct Hidden {
};
}  // namespace
class Seen final : public Base {
  struct Inner {};
};
class Declared;
}  // namespace farandole::a
"""
    assert list(rules.named_types(Source("a.cc", text))) == [("farandole::a", "Seen")]


@pytest.mark.parametrize(
    "path, text",
    [
        ("a.md", "# A\n\n{}\n"),
        ("a.md", "# A\n\n- {}\n"),
        ("a.md", "# A\nThe rank\nwaits. {}\n"),
        ("a.cc", "int a;\n\n// {}\n"),
        ("a.cc", "int a;\n\nint b;  // {}\n"),
        ("a.cc", "int a;\n\n// At most 65,536. {}\n"),
        ("a.h", "/*\n * The rank waits.\n * {}\n */\n"),
        ("a.proto", "// The rank\n//\n// {}\n"),
        ("a.go", "package a\n\n// {}\n"),
        ("a.py", '"""A module.\n\n{}\n"""\n'),
        ("a.py", "a = 1\n\n# {}\n"),
        ("a.ts", "const a = `// ${{b}}`;\n\n// {}\n"),
        ("a.tsx", "return (\n  <p>\n    {{/* {} */}}\n"),
        ("a/BUILD.bazel", "cc_library(\n    srcs = [\n        # {}\n"),
        ("a.bzl", "A = [\n]\n# {}\n"),
        ("Makefile", "all: a\n\n# {}\n"),
        ("a.sh", "#!/bin/sh\n\necho $#  # {}\n"),
        ("tools/a", "#!/bin/sh\n\n# {}\n"),
    ],
)
def test_a_sentence_that_hides_who_acts_is_found(path: str, text: str) -> None:
    for beginning in ["Who", "Whoever", "Whose", "Whom", "What", "Whatever", "Those who", "Nobody who", "That which"]:
        assert lines(rules.sentences_name_who_acts, path, text.format(f"{beginning} waits does the work.")) == [3]
    assert not found(rules.sentences_name_who_acts, path, text.format("The waiting rank reports the loss."))
    assert not found(rules.sentences_name_who_acts, path, text.format("What is missing?"))


@pytest.mark.parametrize(
    "path, text",
    [
        ("a.md", "## What works today\n"),
        ("a.md", "| What goes in | what comes out |\n"),
        ("a.md", "```\nWhat a program prints.\n```\n"),
        ("a.cc", 'const char* a = "What a program prints.";  // A message.\n'),
        ("a.py", 'a = "# What a program prints."\n'),
        ("a.ts", "const a = `// What a program prints.`;\n"),
        ("a.sh", "#!/bin/sh\necho '#What a program prints.'\n"),
        ("a.py", 'def f():\n    return """What a program prints."""\n'),
    ],
)
def test_headings_tables_code_and_strings_are_no_sentences(path: str, text: str) -> None:
    assert not found(rules.sentences_name_who_acts, path, text)


def test_folders_that_reach_each_other_are_found() -> None:
    tree = [
        Source("worker/a/a.h", '#include "worker/b/b.h"\n'),
        Source("worker/b/b.h", '#include "worker/c/c.h"\n#include "worker/d/d.h"\n'),
        Source("worker/c/c.cc", '// #include "worker/d/d.h"\n#include "worker/a/a.h"\n#include "worker/c/c.h"\n'),
        Source("worker/d/d.h", "#include <vector>\n"),
    ]
    assert folders.circles(folders.folder_includes(tree)) == [["worker/a", "worker/b", "worker/c"]]
    assert not folders.circles(folders.folder_includes(tree[:2] + tree[3:]))


def test_a_crowded_folder_is_found() -> None:
    tree = [Source(f"worker/a/{index}.cc", "") for index in range(folders.MAX_FOLDER_FILES + 1)]
    assert folders.crowded(tree) == {"worker/a": folders.MAX_FOLDER_FILES + 1}
    assert not folders.crowded(tree[1:] + [Source("worker/a/data.txt", "")])
