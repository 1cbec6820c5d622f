"""The code of pages of docs/, which tests run as it stands there."""

import pathlib
import re
import sys
from typing import Optional

import harness

DOCS = harness.ROOT / "docs"


def code_of(page: str, section: Optional[str] = None) -> str:
    """Its blocks of Python, one after the other, or those of a section."""
    text = (DOCS / page).read_text(encoding="utf-8")
    if section is not None:
        found = re.search(rf"^## {section}$(.*?)(?=^## |\Z)", text, re.S | re.M)
        assert found, f"{page} has no section {section}"
        text = found.group(1)
    code = "\n".join(re.findall(r"^```python\n(.*?)^```$", text, re.S | re.M))
    assert code, f"{page} has no code there"
    return code


def require_five_lines(folder: pathlib.Path, page: str, before: str, after: str) -> None:
    """Fails unless the page's first section runs on two ranks. `before`: what its reader has; `after`: what its code must
    have come to."""
    program = folder / "program.py"
    lines = (before, code_of(page, "Five lines"), after, "print('ran to its end', flush=True)\n")
    program.write_text("\n".join(lines), encoding="utf-8")
    result = harness.run(harness.Setup(2), folder / "state", sys.executable, str(program))
    assert result.returncode == 0 and result.stdout.count("ran to its end") == 2, result.stdout
