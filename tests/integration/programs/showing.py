"""Shows progress as real programs do, by tqdm, rich or by hand, and goes on step by step as its test lets it: each rank
waits at the named pipe GATE.RANK. It needs no job."""

import os
import shutil
import signal
import sys

GATE, WHAT = sys.argv[1:3]
RANK = os.environ["FARANDOLE_LAUNCH_INDEX"]


def wait() -> None:
    """Until the test lets this rank go on."""
    with open(f"{GATE}.{RANK}", "rb", buffering=0) as gate:
        assert gate.read(1)


def one_bar() -> None:
    from tqdm import tqdm

    with tqdm(total=4, desc="epoch", mininterval=0, ncols=60) as bar:
        for _ in range(4):
            wait()
            bar.update()


def two_bars() -> None:
    from tqdm import tqdm

    for _ in tqdm(range(2), desc="outer", mininterval=0, ncols=60):
        for _ in tqdm(range(2), desc="inner", mininterval=0, leave=False, position=1, ncols=60):
            wait()
    print("after the bars")


def rich_bars() -> None:
    from rich.progress import Progress

    with Progress() as progress:
        first = progress.add_task("[red]first", total=2)
        second = progress.add_task("second", total=2)
        for _ in range(2):
            wait()
            progress.advance(first)
            progress.advance(second)
        progress.console.print("[green]above the bars")
        wait()
    print("after the bars")


def dots() -> None:
    for _ in range(3):
        sys.stdout.write(".")
        sys.stdout.flush()
        wait()
    print(" done")


def streams() -> None:
    signal.signal(signal.SIGWINCH, lambda *_: print("size", shutil.get_terminal_size(), flush=True))
    print(*(os.isatty(fd) for fd in range(3)), os.environ.get("TERM"), tuple(os.get_terminal_size(2)), flush=True)
    wait()
    print("end", flush=True)


def question() -> None:
    try:
        print("hello", input("name? "))
    except EOFError:
        print("nobody")


{"bar": one_bar, "bars": two_bars, "rich": rich_bars, "dots": dots, "streams": streams, "question": question}[WHAT]()
