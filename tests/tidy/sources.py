"""Source files as the rules see them: their text, and the same with comments or strings blanked out."""

import functools
import io
import pathlib
import re
import subprocess
import tokenize
from typing import Iterator, List, NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]

_CPP_SUFFIXES = (".cc", ".h", ".c", ".cu")
_SUFFIXES = {
    ".py": "python",
    ".proto": "proto",
    ".go": "go",
    ".ts": "typescript",
    ".tsx": "typescript",
    ".bzl": "starlark",
    ".sh": "shell",
}

CPP_COMMENT_OR_STRING = re.compile(
    r"""
    (?P<raw>R"(?P<delimiter>[^()\\\s]{0,16})\(.*?\)(?P=delimiter)")
    | (?P<comment>//[^\n]*|/\*.*?\*/)
    | (?P<string>"(?:\\.|[^"\\\n])*")
    | (?P<character>(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+')
    """,
    re.DOTALL | re.VERBOSE,
)
_CPP_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)


class Finding(NamedTuple):
    """A place that breaks a rule; the message says what to do instead."""

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


class Source:
    """One file of the tree. `path` is relative to the root, with forward slashes."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text

    @functools.cached_property
    def language(self) -> str:
        """cpp, python, proto, go, typescript, starlark, shell, or "" for what is no program."""
        suffix = pathlib.PurePosixPath(self.path).suffix
        if suffix in _CPP_SUFFIXES:
            return "cpp"
        first = self.text.split("\n", 1)[0]
        if not suffix and first.startswith("#!"):
            return "python" if "python" in first else "shell"
        return _SUFFIXES.get(suffix, "")

    @functools.cached_property
    def lines(self) -> List[str]:
        """The text by line."""
        return self.text.splitlines()

    @functools.cached_property
    def uncommented(self) -> str:
        """A C++ file with blanks in place of its comments."""
        return CPP_COMMENT_OR_STRING.sub(
            lambda found: _blank(found.group()) if found.group("comment") else found.group(), self.text
        )

    @functools.cached_property
    def code(self) -> str:
        """The text with blanks in place of comments and of what strings contain; lines and columns are kept."""
        if self.language == "python":
            return _python_without(self.text, [tokenize.COMMENT, tokenize.STRING])
        if self.language == "cpp":
            return CPP_COMMENT_OR_STRING.sub(_blank_but_quotes, self.text)
        return self.text

    @functools.cached_property
    def without_strings(self) -> str:
        """A Python file with blanks in place of its strings; comments stay."""
        return _python_without(self.text, [tokenize.STRING])

    @functools.cached_property
    def statements(self) -> str:
        """The code of a C++ file without preprocessor directives."""
        return _CPP_DIRECTIVE.sub(lambda found: _blank(found.group()), self.code)

    def finding(self, line: int, message: str) -> Finding:
        """A finding in this file."""
        return Finding(self.path, line, message)

    def matches(self, pattern: "re.Pattern[str]", text: str, message: str) -> Iterator[Finding]:
        """A finding for each match of the pattern in `text`, one of this file's forms; {0} in the message is the match."""
        for found in pattern.finditer(text):
            yield self.finding(line_of(text, found.start()), message.format(found.group().strip()))


def line_of(text: str, position: int) -> int:
    """The line number, from 1, of a position in a text."""
    return text.count("\n", 0, position) + 1


def tracked_sources() -> List[Source]:
    """The text files that git tracks."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, check=True)
    sources = []
    for path in listed.stdout.decode().split("\0"):
        file = ROOT / path
        if path and file.is_file():
            content = file.read_bytes()
            if b"\0" not in content:
                sources.append(Source(path, content.decode("utf-8", "replace")))
    return sources


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def _blank_but_quotes(found: "re.Match[str]") -> str:
    text = found.group()
    if found.group("string") or found.group("character"):
        return text[0] + " " * (len(text) - 2) + text[-1]
    if found.group("raw"):
        return '"' + _blank(text[1:-1]) + '"'
    return _blank(text)


def _python_without(text: str, types: List[int]) -> str:
    lines = text.splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in types:
            continue
        (first, start), (last, end) = token.start, token.end
        for row in range(first, last + 1):
            line = lines[row - 1]
            left = start if row == first else 0
            right = end if row == last else len(line)
            lines[row - 1] = line[:left] + _blank(line[left:right]) + line[right:]
    return "".join(lines)
