"""`farandole run` in a terminal, in a pipe and in a file: progress bars, colours, prompts, job control."""

import pathlib
import signal
import subprocess
import sys
import threading
from typing import Callable, Iterator, List

import harness
import pytest
from gates import Gate
from hosts import Aliases
from programs_run import Program
from terminals import COLUMNS, Terminal

RUN = [str(harness.CLI), "run"]
SHOWING = [sys.executable, str(pathlib.Path(__file__).parent / "programs" / "showing.py")]


class Gates:
    """One for each of two ranks."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self.ranks = [Gate(path.with_name(f"{path.name}.{rank}")) for rank in range(2)]

    def command(self, what: str) -> List[str]:
        """The worker's command."""
        return [*SHOWING, str(self.path), what]


@pytest.fixture
def gates(tmp_path: pathlib.Path) -> Iterator[Gates]:
    """Where workers wait."""
    made = Gates(tmp_path / "gate")
    yield made
    for gate in made.ranks:
        gate.close()


def with_text(*texts: str) -> Callable[[List[str]], bool]:
    """Whether each of the texts is in a line."""
    return lambda lines: all(any(text in line for line in lines) for text in texts)


def test_a_bar_of_rank_0_is_shown_at_once_and_others_when_they_end(
    terminal: Callable[..., Terminal], gates: Gates
) -> None:
    screen = terminal(*RUN, "-np", "2", *gates.command("bar"))
    screen.expect(with_text("[0] epoch:   0%"))
    gates.ranks[0].let_through(1)
    lines = screen.expect(with_text("[0] epoch:  25%"))
    assert len(lines) == 1, lines
    gates.ranks[1].let_through(4)
    lines = screen.expect(with_text("[1] epoch: 100%", "[0] epoch:  25%"))
    assert lines[0].startswith("[1] epoch: 100%") and lines[1].startswith("[0] epoch:  25%") and len(lines) == 2, lines
    gates.ranks[0].let_through(3)
    lines = screen.end(0)
    assert [line[:15] for line in lines] == ["[1] epoch: 100%", "[0] epoch: 100%"], lines


def test_bars_of_all_ranks_or_of_none(terminal: Callable[..., Terminal], gates: Gates) -> None:
    screen = terminal(*RUN, "-np", "2", "--progress", "all", *gates.command("bar"))
    screen.expect(with_text("[0] epoch:   0%", "[1] epoch:   0%"))
    for gate in gates.ranks:
        gate.let_through(2)
    lines = screen.expect(with_text("[0] epoch:  50%", "[1] epoch:  50%"))
    assert len(lines) == 2, lines
    for gate in gates.ranks:
        gate.let_through(2)
    assert len(screen.end(0)) == 2

    screen = terminal(*RUN, "-np", "1", "--progress", "none", *gates.command("bar"))
    gates.ranks[0].let_through(4)
    screen.end(0)
    assert b"25%" not in screen.written and b"100%" in screen.written, screen.written


def test_bars_below_each_other_are_drawn_in_place(terminal: Callable[..., Terminal], gates: Gates) -> None:
    screen = terminal(*RUN, "-np", "2", *gates.command("bars"))
    for rank in (0, 1):
        gates.ranks[rank].let_through(3)
    lines = screen.expect(with_text("[0] outer:  50%", "[0] inner:  50%"))
    assert [line[:15] for line in lines] == ["[0] outer:  50%", "[0] inner:  50%"], lines
    for rank in (0, 1):
        gates.ranks[rank].let_through(1)
    lines = screen.end(0)
    for rank in (0, 1):
        own = [line for line in lines if line.startswith(f"[{rank}]")]
        # One goes to stderr, the other to stdout.
        assert sorted(line.split()[1] for line in own) == ["after", "outer:"], lines
        assert with_text(f"[{rank}] outer: 100%")(own), lines


def test_rich_looks_as_without_a_launcher(terminal: Callable[..., Terminal], gates: Gates) -> None:
    screen = terminal(*RUN, "-np", "2", *gates.command("rich"))
    lines = screen.expect(with_text("[0] first", "[0] second"))
    assert len(lines) == 2 and all(len(line) < COLUMNS for line in lines), lines
    assert set(screen.colours("first")) == {"red"}, screen.colours("first")
    for rank in (0, 1):
        gates.ranks[rank].let_through(2)
    lines = screen.expect(
        lambda lines: with_text("[0] above the bars")(lines) and sum("100%" in line for line in lines) >= 2
    )
    own = [line for line in lines if line.startswith("[0]")]
    assert [line.split()[1] for line in own] == ["above", "first", "second"], lines
    assert set(screen.colours("above")) == {"green"}
    for rank in (0, 1):
        gates.ranks[rank].let_through(1)
    lines = screen.end(0)
    for rank in (0, 1):
        own = [line for line in lines if line.startswith(f"[{rank}]")]
        assert [line.split()[1] for line in own] == ["above", "first", "second", "after"], lines


def test_a_line_without_its_end_reaches_a_pipe_and_is_not_mixed(start: Callable[..., Program], gates: Gates) -> None:
    run = start(*RUN, "-np", "2", *gates.command("dots"))

    def expect(text: str) -> None:
        while text not in run.output:
            assert run.is_running(), run.output
            run.await_output(20)

    for rank in (0, 1):
        expect(f"[{rank}] .")
    gates.ranks[0].let_through(3)
    expect("[0] .. done\n") if "[0] .\n" in run.output else expect("[0] ... done\n")
    gates.ranks[1].let_through(3)
    run.require_end(0)
    for rank in (0, 1):
        own = [line[4:] for line in run.output.splitlines() if line.startswith(f"[{rank}] ")]
        assert "".join(own) == "... done", run.output
        assert len(own) <= 2, run.output


@pytest.fixture
def run_into_file(
    tmp_path: pathlib.Path,
) -> Iterator[Callable[[List[str]], "tuple[subprocess.Popen[bytes], pathlib.Path]"]]:
    """Starts a command on two ranks, which write into a file."""
    started: "List[subprocess.Popen[bytes]]" = []

    def run(command: List[str]) -> "tuple[subprocess.Popen[bytes], pathlib.Path]":
        log = tmp_path / "log"
        with open(log, "wb") as file:
            arguments = [*RUN, "-np", "2", "--state-dir", str(tmp_path / "state"), *command]
            started.append(subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=file, stderr=file))
        return started[-1], log

    yield run
    for process in started:
        process.kill()
        process.wait()


def test_bars_in_a_file_are_the_last_states_of_rank_0_and_the_ends_of_all(
    gates: Gates, run_into_file: Callable[..., "tuple[subprocess.Popen[bytes], pathlib.Path]"]
) -> None:
    process, log = run_into_file(gates.command("bar"))
    while b"[0] epoch:   0%" not in log.read_bytes():  # it appears while rank 0 waits
        assert process.poll() is None, log.read_bytes()
    for gate in gates.ranks:
        gate.let_through(4)
    assert process.wait(60) == 0, log.read_bytes()
    text = log.read_bytes().decode()
    assert "[1] epoch:   0%" not in text and "\x1b" not in text and text.count("100%") == 2, text
    shown = [line.rpartition("\r")[2] for line in text.split("\n")]
    for rank in range(2):
        assert sum(line.startswith(f"[{rank}] epoch: 100%") for line in shown) == 1, text


def test_rich_in_a_file_is_as_without_a_launcher(
    gates: Gates, run_into_file: Callable[..., "tuple[subprocess.Popen[bytes], pathlib.Path]"]
) -> None:
    process, log = run_into_file(gates.command("rich"))
    for gate in gates.ranks:
        gate.let_through(3)
    assert process.wait(60) == 0, log.read_bytes()
    lines = log.read_bytes().decode().splitlines()
    for rank in range(2):
        own = [line[4:] for line in lines if line.startswith(f"[{rank}] ")]
        assert [line.split()[0] for line in own] == ["above", "first", "second", "after"], lines
        assert all("100%" in line for line in own[1:3]) and not any("\x1b" in line for line in own), lines


def test_a_shells_job_control_and_keys_reach_the_workers(terminal: Callable[..., Terminal], gates: Gates) -> None:
    screen = terminal("bash", "--norc", "--noprofile", "-i", PS1="$ ")
    screen.expect(with_text("$"))
    screen.type(" ".join([*RUN, "-np", "2", *gates.command("streams")]) + "\n")
    size = f"True xterm-256color ({COLUMNS - 5}, 24)"
    screen.expect(with_text(f"[0] False True {size}", f"[1] False True {size}"))
    screen.resize(60, 20)
    screen.expect(with_text("[0] size os.terminal_size(columns=55, lines=20)", "[1] size os.terminal_size(columns=55"))
    screen.type("\x1a")
    screen.expect(with_text("Stopped"))
    screen.type("fg\n")
    for gate in gates.ranks:
        gate.let_through(1)
    screen.expect(with_text("[0] end", "[1] end"))
    # Rank 0 would read text that is typed before the launcher ends.
    screen.expect(lambda lines: lines[-1] == "$")
    screen.type(" ".join([*RUN, "-np", "1", "sh", "-c", "'echo runs; exec sleep 1000'"]) + "; echo code $?\n")
    screen.expect(with_text("[0] runs"))
    screen.type("\x03")
    screen.expect(with_text("got SIGINT", f"code {128 + signal.SIGINT}"))
    screen.type("exit\n")
    screen.end(0)


def test_a_job_that_is_suspended_for_longer_than_the_stall_limit_goes_on(
    terminal: Callable[..., Terminal], tmp_path: pathlib.Path
) -> None:
    gate = Gate(tmp_path / "gate")
    late = [sys.executable, str(pathlib.Path(__file__).parent / "programs" / "late.py"), str(gate)]
    shell = terminal("bash", "--norc", "--noprofile", "-i", PS1="ready> ")
    shell.expect(with_text("ready>"))
    shell.type(" ".join([*RUN, "-np", "2", "--stall-check-shutdown-time-seconds", "3", *late]) + "\n")
    shell.expect(with_text("waits"))
    shell.type("\x1a")
    shell.expect(with_text("Stopped"))
    threading.Event().wait(5)
    shell.type("fg\n")
    # Longer than between two looks for a stall.
    threading.Event().wait(1)
    gate.let_through(1)
    shell.expect(with_text("[0] done", "[1] done"))
    gate.close()
    shell.expect(lambda lines: lines[-1].endswith("ready>"))
    shell.type("echo code $?\n")
    shell.expect(with_text("code 0"))
    shell.type("exit 0\n")
    shell.end(0)


def test_a_prompt_is_shown_before_its_answer_whatever_the_input_is(
    terminal: Callable[..., Terminal], gates: Gates, tmp_path: pathlib.Path
) -> None:
    screen = terminal(*RUN, "-np", "2", *gates.command("question"))
    screen.expect(with_text("[0] name?", "[1] name? nobody"))
    screen.type("Ada\n")
    lines = screen.end(0)
    assert lines[-2:] == ["[0] name? Ada", "[0] hello Ada"], lines

    answers = tmp_path / "answers"
    answers.write_text("Bob\n", encoding="ascii")
    command = " ".join([*RUN, "-np", "1", *gates.command("question")])
    for redirection, said in ((f"< {answers}", "hello Bob"), ("< /dev/null", "nobody")):
        screen = terminal("sh", "-c", f"{command} {redirection}")
        assert screen.end(0)[-1] == f"[0] name? {said}"
    screen = terminal("sh", "-c", f"echo Eve | {command}")
    assert screen.end(0)[-1] == "[0] name? hello Eve"


def test_a_worker_that_asks_the_terminal_itself_is_not_stopped(terminal: Callable[..., Terminal]) -> None:
    program = """
import errno, getpass
try:
    open("/dev/tty")
except OSError as error:
    print(errno.errorcode[error.errno])
print("got", getpass.getpass("word? "))
"""
    screen = terminal(*RUN, "-np", "1", sys.executable, "-c", program)
    screen.expect(with_text("[0] ENXIO", "[0] word?"))
    screen.type("sesame\n")
    assert "[0] got sesame" in screen.end(0)


def test_workers_on_other_hosts_have_terminals_too(
    terminal: Callable[..., Terminal], aliases: Aliases, gates: Gates
) -> None:
    screen = terminal(*RUN, "-np", "2", *aliases.options(1, 1), *gates.command("streams"))
    size = f"True xterm-256color ({COLUMNS - 5}, 24)"
    screen.expect(with_text(f"[0] False True {size}", f"[1] False True {size}"))
    screen.resize(60, 20)
    screen.expect(with_text("[0] size os.terminal_size(columns=55", "[1] size os.terminal_size(columns=55"))
    for gate in gates.ranks:
        gate.let_through(1)
    assert {"[0] end", "[1] end"} <= set(screen.end(0))
