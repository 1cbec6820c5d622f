"""How large the classes of the C++ tree are: their bodies and the functions that are defined elsewhere."""

import re
from typing import Dict, Iterator, List, NamedTuple

from functions import function_spans
from sources import Source, line_of


class Size(NamedTuple):
    """A class's own methods, and the lines of its body and of its methods elsewhere."""

    methods: int
    lines: int


GUIDE = Size(methods=45, lines=600)
# Classes beyond the guide, each with its own bound.
LARGE: Dict[str, Size] = {
    "sdk/cpp Job": Size(81, 600),  # the public calls: each op in all its forms
}

_HEAD = re.compile(
    r"(?:^|(?<=[;{}:\s]))(?:class|struct)\s+(?:\[\[[^\]]*\]\]\s*)?([\w:]+)(?:\s+final)?\s*(?::[^:;{}][^;{}]*)?$"
)
_METHOD = re.compile(r"[\w>&*\]]\s+[\w:~]+\s*\(|\boperator\b|^\s*(?:explicit\s+)?~?\w+\s*\(")
_NO_METHOD = re.compile(r"=\s*delete\s*$|^\s*(?:using|typedef|friend|static_assert|enum)\b|\w+\s*=(?!=)[^()]*$")


def class_sizes(sources: List[Source]) -> Dict[str, Size]:
    """By top folder and qualified name without namespaces: "server Job::State". In sdk/ each folder is a library of its
    own: "sdk/cpp Job"."""
    methods: Dict[str, int] = {}
    lines: Dict[str, int] = {}
    for source in sources:
        if source.language != "cpp":
            continue
        folders = source.path.split("/")
        folder = "/".join(folders[:2]) if folders[0] == "sdk" else folders[0]
        for body in _bodies(source.statements):
            name = f"{folder} {body.name}"
            methods[name] = methods.get(name, 0) + body.methods
            lines[name] = lines.get(name, 0) + body.lines
        for span in function_spans(source):
            owner = span.name.rpartition("::")[0]
            if owner:
                lines[f"{folder} {owner}"] = lines.get(f"{folder} {owner}", 0) + span.length
    return {name: Size(count, lines[name]) for name, count in methods.items()}


def large_classes(sources: List[Source]) -> Dict[str, Size]:
    """Those beyond the guide, or beyond their own bound."""
    return {
        name: size
        for name, size in class_sizes(sources).items()
        if size.lines > LARGE.get(name, GUIDE).lines or size.methods > LARGE.get(name, GUIDE).methods
    }


def repeated_classes(sources: List[Source]) -> Dict[str, List[str]]:
    """Classes of one name in several headers, which would meet in a process that links both. Each folder of sdk/ is a
    library of its own."""
    headers: Dict[str, List[str]] = {}
    for source in sources:
        if source.path.endswith(".h") and not source.path.startswith("sdk/"):
            for name in sorted({body.name for body in _bodies(source.statements) if body.name}):
                headers.setdefault(name, []).append(source.path)
    return {name: paths for name, paths in headers.items() if len(paths) > 1}


class _Body(NamedTuple):
    name: str
    methods: int
    lines: int


def _bodies(code: str) -> Iterator[_Body]:
    """The classes at any depth, each without the classes inside of it."""
    # Name ("" for what is no class), start, methods, lines of classes inside, and of its outside: open parentheses, and
    # the statement that goes on behind it.
    opened: List[List] = []
    statement = parentheses = 0
    for mark in re.finditer(r"[(){};]|\b(?:public|private|protected)\s*:", code):
        character = mark.group()
        if character in "()":
            parentheses += 1 if character == "(" else -1
        elif character == "{":
            head = _HEAD.search(code[statement : mark.start()])
            outer = opened[-1][0] if opened else ""
            if parentheses == 0 and head:
                opened.append([f"{outer}::{head[1]}" if outer else head[1], mark.start(), 0, 0, parentheses, None])
            else:
                if outer and parentheses == 0:
                    opened[-1][2] += _is_method(code[statement : mark.start()])
                opened.append(["", mark.start(), 0, 0, parentheses, statement if parentheses else None])
            statement, parentheses = mark.end(), 0
        elif character == "}":
            if not opened:
                continue
            name, start, methods, inside, parentheses, outer_statement = opened.pop()
            length = line_of(code, mark.start()) - line_of(code, start) + 1
            if name:
                yield _Body(name, methods, length - inside)
                if opened:
                    opened[-1][3] += length
            statement = mark.end() if outer_statement is None else outer_statement
        elif parentheses == 0:
            if opened and opened[-1][0] and character == ";":
                opened[-1][2] += _is_method(code[statement : mark.start()])
            statement = mark.end()


def _is_method(statement: str) -> bool:
    return bool(_METHOD.search(statement)) and not _NO_METHOD.search(statement)
