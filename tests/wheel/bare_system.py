"""Systems that have none of what Farandole is built with: a folder that programs run in as their root.

Made from this machine's own packages within a second, or by debootstrap from Debian's archive. Needs root. Programs in it share the
network, /dev and /proc with this machine, and otherwise see only the folders that are mounted into it.
"""

import pathlib
import re
import shutil
import subprocess
from typing import Dict, Iterator, List, Sequence, Set, Tuple

# A machine on which programs in Python run has these.
PACKAGES = ("bash", "coreutils", "libstdc++6", "zlib1g", "python3")
# Pages for people, thousands of files.
_LEFT_OUT = ("/usr/share/doc/", "/usr/share/man/", "/usr/share/locale/", "/usr/share/info/")
_MERGED = ("bin", "lib", "lib64", "sbin")
_MIRROR = "http://deb.debian.org/debian"

# $1 is the root; pairs "from to" until "--" are shown in it, then comes the command. The mounts end with it.
_ENTER = """
set -e
root=$1; shift
for folder in dev proc; do mount --rbind "/$folder" "$root/$folder"; done
while [ "$1" != -- ]; do
  if [ -d "$1" ]; then mkdir -p "$root$2"; else mkdir -p "$root$(dirname "$2")"; touch "$root$2"; fi
  mount --bind "$1" "$root$2"; shift 2
done
shift
exec /usr/sbin/chroot "$root" "$@"
"""


def _name_of(text: str) -> str:
    return re.split(r"[\s:(]", text.strip())[0]


def _installed() -> Tuple[Dict[str, List[List[str]]], Dict[str, str]]:
    """The needs of each installed package, alternatives by alternatives, and the providers of virtual names."""
    form = "${Package}|${Provides}|${Pre-Depends}, ${Depends}\n"
    listed = subprocess.run(["dpkg-query", "-W", "-f", form], check=True, capture_output=True, text=True).stdout
    needs: Dict[str, List[List[str]]] = {}
    providers: Dict[str, str] = {}
    for line in listed.splitlines():
        name, provided, needed = line.split("|", 2)
        needs[name] = [[_name_of(one) for one in part.split("|")] for part in needed.split(",") if part.strip()]
        for other in filter(None, map(_name_of, provided.split(","))):
            providers.setdefault(other, name)
    return needs, providers


def _with_needs(wanted: Sequence[str]) -> Set[str]:
    """The packages and all that they need."""
    needs, providers = _installed()
    found: Set[str] = set()
    left = list(wanted)
    while left:
        name = left.pop()
        name = name if name in needs else providers.get(name, name)
        if name not in found and name in needs:
            found.add(name)
            here = ([one for one in part if one in needs or one in providers] for part in needs[name])
            left.extend(part[0] for part in here if part)
    return found


def _files(packages: Sequence[str]) -> Iterator[pathlib.Path]:
    listed = subprocess.run(["dpkg-query", "-L", *packages], check=True, capture_output=True, text=True).stdout
    for line in sorted(set(listed.splitlines())):
        path = pathlib.Path(line)
        if line.startswith("/") and not line.startswith(_LEFT_OUT) and (path.is_symlink() or path.is_file()):
            yield path


class BareSystem:
    """One such folder. Two may be used at a time, each by one thread."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        self._shown: List[str] = []

    @classmethod
    def of_this_machine(cls, root: pathlib.Path) -> "BareSystem":
        """From this machine's own files of PACKAGES and of what these need."""
        for name in ("dev", "proc", "tmp", "root", "etc", *(f"usr/{name}" for name in _MERGED)):
            (root / name).mkdir(parents=True)
        for name in _MERGED:
            (root / name).symlink_to(f"usr/{name}")
        for path in _files(sorted(_with_needs(PACKAGES))):
            target = root / path.relative_to("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.is_symlink():
                shutil.copy2(path, target, follow_symlinks=False)
        (root / "usr/bin/sh").symlink_to("bash")
        return cls(root)

    @classmethod
    def of_debian(cls, root: pathlib.Path) -> "BareSystem":
        """By debootstrap, with Python and pip from Debian's archive."""
        wanted = "--include=libstdc++6,python3-venv,ca-certificates"
        command = ["debootstrap", "--variant=minbase", wanted, "bookworm", str(root), _MIRROR]
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        assert result.returncode == 0, result.stdout[-3000:]
        return cls(root)

    def show(self, path: pathlib.Path, inside: str) -> None:
        """Lets the system have a file or folder of this machine under the absolute path `inside`."""
        self._shown += [str(path), inside]

    def run(self, *command: str, seconds: int = 120, **environment: str) -> str:
        """The output of a command that must succeed. Its environment is `environment` and a PATH, and nothing else."""
        variables = {"PATH": "/venv/bin:/usr/bin:/bin", "HOME": "/root", "LANG": "C.UTF-8", **environment}
        enter = ["unshare", "--mount", "sh", "-c", _ENTER, "sh", str(self.root), *self._shown, "--", *command]
        result = subprocess.run(
            enter,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert result.returncode == 0, f"{' '.join(command)} exited with {result.returncode}:\n{result.stdout[-3000:]}"
        return result.stdout
