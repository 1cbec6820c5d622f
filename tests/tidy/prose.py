"""The prose of a source file: its comments and docstrings, or the paragraphs of a page in Markdown."""

import ast
import pathlib
import re
from typing import Iterator, List, NamedTuple

from sources import CPP_COMMENT_OR_STRING, Source, line_of


class Sentence(NamedTuple):
    """A sentence and the line on which it begins."""

    line: int
    text: str


_SENTENCE = re.compile(r"\S.*?(?:[.!?][)\"'*]*(?=\s|$)|$)", re.DOTALL)
_COMMENT_MARKS = re.compile(r"^[ \t]*(?://+!?|/\*+|\*(?!\*|/)|#+)?[ \t]?|[ \t]*\*/$")
_NO_PROSE = re.compile(r"[ \t]*(?:\||#)")  # A row of a table, or a heading.
_ITEM = re.compile(r"^[ \t]*(?:[-*]|\d+\.)[ \t]+")

# Files that are no programs and have comments of "#".
_HASHED = ("BUILD", "BUILD.bazel", "Makefile", "WORKSPACE", ".bazelrc")
_HASHED_SUFFIXES = (".in", ".toml", ".yml")
_HASH = re.compile(r"(?:^|\s)(#(?!!).*)")
_TEMPLATE_OR = re.compile(r"`(?:\\.|[^`\\])*`|" + CPP_COMMENT_OR_STRING.pattern, re.DOTALL | re.VERBOSE)


def sentences(source: Source) -> Iterator[Sentence]:
    """The sentences of comments in all languages of the tree, of Python's docstrings, and of Markdown's paragraphs."""
    for paragraph in _paragraphs(source):
        text = "\n".join(line.text for line in paragraph)
        for found in _SENTENCE.finditer(text):
            yield Sentence(paragraph[text.count("\n", 0, found.start())].line, " ".join(found.group().split()))


def _paragraphs(source: Source) -> Iterator[List[Sentence]]:
    paragraph: List[Sentence] = []
    for line in _lines(source):
        follows = paragraph and line.line == paragraph[-1].line + 1
        if paragraph and not (follows and line.text and not _ITEM.match(line.text)):
            yield paragraph
            paragraph = []
        if line.text:
            paragraph.append(Sentence(line.line, _ITEM.sub("", line.text)))
    if paragraph:
        yield paragraph


def _lines(source: Source) -> Iterator[Sentence]:
    if source.language in ("cpp", "proto", "go", "typescript"):
        pattern = _TEMPLATE_OR if source.language == "typescript" else CPP_COMMENT_OR_STRING
        for found in pattern.finditer(source.text):
            if found.group("comment"):
                yield from _numbered(line_of(source.text, found.start()), found.group())
    elif source.language == "python":
        yield from _python_lines(source)
    elif source.path.endswith(".md"):
        yield from _markdown_lines(source)
    elif _has_hash_comments(source):
        for row, line in enumerate(source.lines):
            found = _HASH.search(line)
            if found:
                yield from _numbered(row + 1, found[1])


def _has_hash_comments(source: Source) -> bool:
    path = pathlib.PurePosixPath(source.path)
    return source.language in ("shell", "starlark") or path.name in _HASHED or path.suffix in _HASHED_SUFFIXES


def _numbered(first: int, text: str) -> Iterator[Sentence]:
    for row, line in enumerate(text.split("\n")):
        yield Sentence(first + row, _COMMENT_MARKS.sub("", line).strip())


def _python_lines(source: Source) -> Iterator[Sentence]:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(source.text)):
        if isinstance(node, documented) and ast.get_docstring(node) is not None:
            docstring = node.body[0]
            assert isinstance(docstring, ast.Expr) and isinstance(docstring.value, ast.Constant)
            yield from _numbered(docstring.lineno, str(docstring.value.value))
    for row, line in enumerate(source.without_strings.split("\n")):
        if "#" in line:
            yield from _numbered(row + 1, line[line.index("#") :])


def _markdown_lines(source: Source) -> Iterator[Sentence]:
    is_code = False
    for row, line in enumerate(source.lines):
        is_fence = line.lstrip().startswith("```")
        is_code = is_code != is_fence
        is_prose = not (is_code or is_fence or _NO_PROSE.match(line))
        yield Sentence(row + 1, line.strip() if is_prose else "")
