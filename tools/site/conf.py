"""Sphinx's settings for `make docs`. The order of pages is that of the links in docs/README.md and in the README.md of a
folder; a page that neither links fails the build."""

import posixpath
import re
from typing import List

project = "Farandole"
extensions = ["myst_parser", "sphinx.ext.graphviz"]
root_doc = "README"
exclude_patterns = ["BUILD.bazel"]
html_theme = "furo"
html_title = "Farandole"
html_show_copyright = False
graphviz_output_format = "svg"
# Links to headings, as GitHub names them.
myst_heading_anchors = 4

_PAGE_LINK = re.compile(r"\]\(([\w./-]+)\.md(?:#[\w-]*)?\)")
_MERMAID = re.compile(r"^```mermaid\ngraph (\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def _table_of_contents(text: str) -> str:
    pages = [page for page in dict.fromkeys(_PAGE_LINK.findall(text)) if not page.startswith("..")]
    return "\n\n```{toctree}\n:hidden:\n\n" + "\n".join(pages) + "\n```\n"


def _graph(found: "re.Match[str]") -> str:
    """GitHub draws Mermaid in the browser; this site draws the same lines when it is built."""
    edges = re.sub(r'^\s*\w+\["([^"]+)"\] --> \w+\["([^"]+)"\]$', r'"\1" -> "\2";', found.group(2), flags=re.MULTILINE)
    head = f'digraph {{ rankdir={found.group(1)}; node [shape=box, fontname="sans-serif", fontsize=11];'
    return "```{graphviz}\n" + head + "\n" + edges + "}\n```"


def _prepare(_app: object, name: str, source: List[str]) -> None:
    source[0] = _MERMAID.sub(_graph, source[0])
    if posixpath.basename(name) == "README" and name != "benchmarks/README":
        source[0] += _table_of_contents(source[0])


def setup(app) -> None:  # noqa: ANN001 - Sphinx's own type, which the linter does not have
    """Called by Sphinx."""
    app.connect("source-read", _prepare)
