"""Measures Farandole beside torch.distributed on the GPUs of this machine:
`python tests/gpu/bench.py [-np N] [--device cpu] [--quick] [--write FILE]`.

Needs PyTorch and the wheel of farandole, and nothing else of this repository. Prints tables, and writes them to FILE
(docs/benchmarks/gpu.md). Ends with 1 where there is no GPU, or a rank has failed.
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any, Dict, List, Tuple

import torch
from run import farandole

RANK = pathlib.Path(__file__).resolve().with_name("bench_rank.py")
# A run's on such machines as are lent: ten minutes, of which something is left.
LIMIT_S = 540
Pairs = List[Tuple[float, float]]


def measure(ranks: int, device: str, quick: bool) -> Dict[str, Any]:
    """The ranks' report. SystemExit: one has failed."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        command = [farandole(), "run", "-np", str(ranks)]
        command += [sys.executable, str(RANK), str(report), "--device", device, *(["--quick"] if quick else [])]
        code = subprocess.run(command, timeout=LIMIT_S, check=False).returncode
        if code != 0:
            sys.exit(f"the ranks ended with {code}")
        return dict(json.loads(report.read_text(encoding="utf-8")))


def size_of(bytes_: int) -> str:
    for unit in ("B", "KiB", "MiB"):
        if bytes_ < 1024:
            return f"{bytes_} {unit}"
        bytes_ //= 1024
    return f"{bytes_} GiB"


def time_of(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def row(what: str, pairs: Pairs) -> str:
    """Medians, their ratio's median, and what each call has more."""
    ours, theirs = (statistics.median(pair[i] for pair in pairs) for i in (0, 1))
    ratio = statistics.median(theirs / ours for ours, theirs in pairs)
    added = statistics.median(ours - theirs for ours, theirs in pairs)
    return f"| {what} | {time_of(ours)} | {time_of(theirs)} | {ratio:.2f} x | {added * 1e6:+.1f} us |"


def table(title: str, rows: List[str], peer: str) -> str:
    head = f"| | Farandole | {peer} | ratio | difference |\n| --- | --- | --- | --- | --- |"
    return f"## {title}\n\n{head}\n" + "\n".join(rows) + "\n"


def text_of(found: Dict[str, Any], ranks: int, device: str) -> str:
    """The document."""
    times: Dict[str, Pairs] = found["times"]
    peer = "NCCL (torch.distributed)" if device == "cuda" else "Gloo (torch.distributed)"
    single = {prefix: [key for key in times if key.startswith(f"{prefix} ")] for prefix in ("allreduce", "awaited")}
    others = [key for key in times if key.split()[0] not in single]

    def rows(prefix: str) -> List[str]:
        return [row(size_of(int(key.split()[1])), times[key]) for key in single[prefix]]

    return "\n".join(
        [
            "# GPUs\n",
            "For users who train on GPUs.\n",
            "Written by `python tests/gpu/bench.py --write docs/benchmarks/gpu.md`. Both contenders run in the same processes, in turns;",
            "figures are medians over the rounds, a ratio is the peer's time over Farandole's, a difference is Farandole's time less the peer's.\n",
            *machine(found, ranks, device),
            "",
            table("Allreduce of float32, one after the other", rows("allreduce"), peer),
            table("The same, each waited for on the host", rows("awaited"), peer),
            table("Many tensors, and steps of training", [row(key, times[key]) for key in others], f"{peer}, DDP"),
        ]
    )


def machine(found: Dict[str, Any], ranks: int, device: str) -> List[str]:
    """The machine and the versions of the measurement."""
    version = subprocess.run([farandole(), "--version"], capture_output=True, text=True, check=False).stdout.strip()
    lines = [f"- {ranks} ranks, {platform.system()} {platform.release()}, Python {platform.python_version()}"]
    if device == "cuda":
        names = {torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())}
        nccl = ".".join(map(str, torch.cuda.nccl.version()))
        lines.append(
            f"- {torch.cuda.device_count()} GPUs: {', '.join(sorted(names))}; CUDA {torch.version.cuda}, NCCL {nccl}"
        )
        if torch.cuda.device_count() < ranks:
            lines.append(f"- {shared()}")
    lines.append(f"- {version}, torch {found['torch']}")
    lines.append(f"- {time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}")
    return lines


def shared() -> str:
    """How ranks use a GPU together."""
    over = "NCCL exchanges data over the host's sockets: only differences of the two count"
    if "CUDA_MPS_PIPE_DIRECTORY" in os.environ:
        return f"ranks share a GPU at the same time (CUDA MPS), and {over}"
    return f"ranks share a GPU in slices of time, so that each collective takes milliseconds, and {over}"


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-np", type=int, default=0, help="ranks; default: one for each GPU, and at least 2")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--quick", action="store_true", help="within a minute")
    parser.add_argument("--write", type=pathlib.Path, help="a file for the tables")
    arguments = parser.parse_args()
    if arguments.device == "cuda" and not torch.cuda.is_available():
        print("there is no GPU that PyTorch can use here: nothing was measured")
        return 1
    gpus = torch.cuda.device_count() if arguments.device == "cuda" else 0
    ranks = arguments.np or max(2, gpus)
    text = text_of(measure(ranks, arguments.device, arguments.quick), ranks, arguments.device)
    print(text)
    if arguments.write is not None:
        arguments.write.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
