"""How the folders of the tree depend on each other, and how much each holds."""

import collections
import posixpath
import re
from typing import Dict, List, Set

from sources import Source

# A newcomer reads a folder as one list; a longer one hides a second idea.
MAX_FOLDER_FILES = 45

Includes = Dict[str, Dict[str, str]]


def folder_includes(tree: List[Source]) -> Includes:
    """For each folder with C++ the folders that it includes, each with one file that does."""
    includes: Includes = collections.defaultdict(dict)
    for source in tree:
        if source.language != "cpp":
            continue
        folder = posixpath.dirname(source.path)
        for header in re.findall(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', source.uncommented, re.MULTILINE):
            other = posixpath.dirname(header)
            if other not in ("", folder):
                includes[folder].setdefault(other, f"{source.path} includes {header}")
    return includes


def circles(includes: Includes) -> List[List[str]]:
    """The folders that reach themselves, grouped by those that reach each other; one group for each circle or knot."""
    reached = {folder: _reached_from(folder, includes) for folder in includes}
    groups: List[List[str]] = []
    for folder in sorted(includes):
        if folder in reached[folder] and not any(folder in group for group in groups):
            groups.append(sorted(other for other in reached[folder] if folder in reached.get(other, ())))
    return groups


def _reached_from(folder: str, includes: Includes) -> Set[str]:
    reached: Set[str] = set()
    open_folders = [folder]
    while open_folders:
        for other in includes.get(open_folders.pop(), {}):
            if other not in reached:
                reached.add(other)
                open_folders.append(other)
    return reached


def crowded(tree: List[Source]) -> Dict[str, int]:
    """The folders with more program files than MAX_FOLDER_FILES, each with their number."""
    counts = collections.Counter(posixpath.dirname(source.path) for source in tree if source.language)
    return {folder: count for folder, count in sorted(counts.items()) if count > MAX_FOLDER_FILES}
