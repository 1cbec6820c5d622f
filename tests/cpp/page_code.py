"""The code of docs/cpp.md, block by block."""

import re
from typing import List

import harness

PAGE = harness.ROOT / "docs" / "cpp.md"


def blocks() -> List[str]:
    """Its blocks of C++, in their order."""
    return re.findall(r"^```cpp\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.S | re.M)


def block(start: str) -> str:
    """The only one that has this text."""
    (found,) = [code for code in blocks() if start in code]
    return found
