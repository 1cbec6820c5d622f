"""Where the functions of a file begin and end."""

import ast
import re
from typing import Iterator, List, NamedTuple

from sources import Source, line_of


class Span(NamedTuple):
    """Lines of one outermost function, signature and closing brace included."""

    name: str
    first: int
    last: int

    @property
    def length(self) -> int:
        """The number of lines."""
        return self.last - self.first + 1


class _Block(NamedTuple):
    kind: str  # scope, function, or inner for what is inside of a function or an initializer
    start: int  # where the statement that opens it begins
    parentheses: int  # open ones around it


_LABELS = re.compile(r"(?:\s|(?:public|private|protected)\s*:)*")
_PREFIX = re.compile(r"(?:\s|template\s*<[^{};]*?>(?=\s*\w)|(?:public|private|protected)\s*:|\[\[[^\]]*\]\])*")
_SCOPE = re.compile(r"(?:inline\s+)?namespace\b|extern\b[^(]*$|(?:typedef\s+)?(?:class|struct|union|enum)\b[^(]*$")
_NAME = re.compile(r"([\w:~]+(?:\s*operator\s*\S+?)?)\s*\(")


def function_spans(source: Source) -> List[Span]:
    """The functions of a C++, Go or Python file."""
    if source.language == "python":
        return list(_python_spans(source.text))
    if source.language == "cpp":
        return list(_cpp_spans(source.statements))
    if source.language == "go":
        return list(_go_spans(source.text))
    return []


def _go_spans(text: str) -> Iterator[Span]:
    # gofmt puts the brace of an outermost function at the beginning of a line.
    for found in re.finditer(r"^func (?:\([^)]*\) )?(\w+).*\{\n(?:.*\n)*?\}$", text, re.MULTILINE):
        yield Span(found[1], line_of(text, found.start()), line_of(text, found.end()))


def _python_spans(text: str) -> Iterator[Span]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield Span(node.name, node.lineno, node.end_lineno or node.lineno)


def _kind_of(opening: str) -> str:
    statement = opening[_PREFIX.match(opening).end() :]
    if _SCOPE.match(statement):
        return "scope"
    return "function" if "(" in statement and not statement.rstrip().endswith("=") else "inner"


def _cpp_spans(code: str) -> Iterator[Span]:
    blocks: List[_Block] = []
    parentheses = statement = 0
    for mark in re.finditer(r"[(){};]", code):
        character = mark.group()
        if character in "()":
            parentheses += 1 if character == "(" else -1
        elif character == ";":
            statement = mark.end() if parentheses == 0 else statement
        elif character == "{":
            nested = parentheses > 0 or (blocks and blocks[-1].kind != "scope")
            kind = "inner" if nested else _kind_of(code[statement : mark.start()])
            blocks.append(_Block(kind, statement, parentheses))
            statement, parentheses = mark.end(), 0
        elif blocks:
            block = blocks.pop()
            parentheses = block.parentheses
            # The braces of a constructor's initializer `: a_{1}, b_{2} {`: its body is still to come.
            initializer = block.kind == "function" and re.match(r"\s*[,{]", code[mark.end() :])
            statement = block.start if initializer or parentheses > 0 else mark.end()
            if block.kind == "function" and not initializer:
                opening = code[block.start : mark.start()]
                start = block.start + _LABELS.match(opening).end()
                name = _NAME.search(code, start)
                yield Span(name.group(1) if name else "?", line_of(code, start), line_of(code, mark.start()))
