"""`farandole top` in a terminal: its screen follows the window, and leaves the terminal as it was."""

import re
import signal
from typing import Callable, List

import harness
import pytest
from coordinators import Coordinator
from programs_run import SOON_SECONDS, START_SECONDS, Program
from terminals import Terminal

# A judgement comes every 2 s, and needs some seconds of measuring.
VERDICT_SECONDS = 90
# Longer than a test: what is drawn meanwhile has another cause than time.
RARELY = ["--interval", "3600"]
ENTER, LEAVE = b"\x1b[?1049h\x1b[?25l", b"\x1b[?25h\x1b[?1049l"


@pytest.fixture(name="command")
def top_of_a_job(serve: Callable[..., Coordinator], job: Callable[..., Program]) -> str:
    """`farandole top` of a job that runs."""
    coordinator = serve()
    run = job(2, "stuck", "sleep", options=coordinator.options("--job", "watched"))
    run.expect("stuck", START_SECONDS)
    return " ".join([str(harness.CLI), "top", "watched", *coordinator.options(*RARELY)])


@pytest.fixture(name="top")
def top_in_a_terminal(command: str, terminal: Callable[..., Terminal]) -> Terminal:
    """It runs, and before and after it the terminal's settings are printed."""
    # Ctrl-C reaches the shell, too.
    script = f"trap : INT; echo before $(stty -g); {command}; echo ended with $?; echo after $(stty -g)"
    screen = terminal("sh", "-c", script)
    screen.expect(shows("job watched, running", "RANK", "q: quit"))
    return screen


def shows(*texts: str) -> Callable[[List[str]], bool]:
    """Whether each of the texts is in a line."""
    return lambda lines: all(any(text in line for line in lines) for text in texts)


def require_restored(terminal: Terminal) -> None:
    """The program is over, and has left its screen, with the cursor shown and the settings as they were."""
    terminal.end(0)
    found = re.fullmatch(
        rb"before (\S+)\r\n" + re.escape(ENTER) + rb".*" + re.escape(LEAVE) + rb"ended with 0\r\nafter (\S+)\r\n",
        terminal.written,
        re.DOTALL,
    )
    assert found and found.group(1) == found.group(2), terminal.written


def test_a_busy_ranks_verdict_is_on_the_screen(
    serve: Callable[..., Coordinator], job: Callable[..., Program], terminal: Callable[..., Terminal]
) -> None:
    coordinator = serve()
    run = job(2, "diagnosed", "busy", options=coordinator.options("--job", "slow"))
    run.expect("runs", START_SECONDS)
    screen = terminal(str(harness.CLI), "top", "slow", *coordinator.options("--interval", "0.5"))

    def is_told(lines: List[str]) -> object:
        text = " ".join(line.strip() for line in lines)
        return re.search(r"slowed by +rank 1 \(\S+\) was last in \d+ of the last \d+ steps; .*: slow compute", text)

    shown = screen.expect(is_told, VERDICT_SECONDS)
    # The rank that the other waits for is the table's first.
    rows = [line.split()[0] for line in shown[[line.split()[0] for line in shown].index("RANK") + 1 :]]
    assert rows[:2] == ["1", "0"], shown
    screen.type("q")
    screen.end(0)


@pytest.mark.parametrize("key", ("q", "\x03"), ids=("q", "ctrl-c"))
def test_it_ends_at_once_and_leaves_the_terminal_as_it_was(key: str, top: Terminal) -> None:
    top.type(key)
    require_restored(top)


def test_another_size_is_drawn_at_once(top: Terminal) -> None:
    seen = len(top.written)
    top.resize(40, 7)
    top.expect(lambda _: top.written[seen:].count(b"\x1b[J") > 0, SOON_SECONDS)
    drawn = top.written[seen:].split(b"\x1b[J")[0].removeprefix(b"\x1b[H")
    lines = [line.replace(b"\x1b[K", b"").decode() for line in drawn.split(b"\r\n")]
    assert len(lines) <= 7 and max(map(len, lines)) <= 40, lines
    assert "job watched" in lines[0] and lines[-1] == "q: quit", lines
    top.type("q")
    require_restored(top)


def test_a_suspended_one_gives_the_terminal_to_the_shell(command: str, terminal: Callable[..., Terminal]) -> None:
    shell = terminal("bash", "--norc", "--noprofile", "-i", PS1="ready> ")
    shell.expect(shows("ready>"))
    shell.type(f"stty -g >before; {command}\n")
    shell.expect(shows("q: quit"))
    shell.type("\x1a")
    shell.expect(shows("Stopped"))
    assert shell.written.count(LEAVE) == 1, shell.written
    shell.type("stty -g | cmp - before && echo the same\n")
    shell.expect(lambda lines: "the same" in lines)
    shell.type("fg\n")
    shell.expect(lambda _: shell.written.count(ENTER) == 2, SOON_SECONDS)
    shell.type("q")
    shell.expect(lambda _: shell.written.count(LEAVE) == 2, SOON_SECONDS)
    shell.type("exit 0\n")
    shell.end(0)


def test_a_job_that_is_over_is_shown_so(
    serve: Callable[..., Coordinator], job: Callable[..., Program], terminal: Callable[..., Terminal]
) -> None:
    coordinator = serve()
    run = job(2, "stuck", "sleep", options=coordinator.options("--job", "brief"))
    run.expect("stuck", START_SECONDS)
    screen = terminal(str(harness.CLI), "top", "brief", *coordinator.options("--interval", "0.2"))
    screen.expect(shows("job brief, running"))
    run.signal(signal.SIGINT)
    run.end()
    screen.expect(shows("job brief, failed"), SOON_SECONDS)
    screen.type("q")
    screen.end(0)
