"""`farandole run -H`: workers on other hosts by a real ssh, which are named when they fail and never outlive the run."""

import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys
from typing import Callable, List

import harness
import pytest
from hosts import Aliases, Namespaces
from programs_run import EARLY, SOON_SECONDS, Program

RUN = [str(harness.CLI), "run"]
# The command of a worker that is to be killed: a child that outlives its shell, and a line that says where it is.
STAYING = "sleep 1000 & echo staying $FARANDOLE_LAUNCH_INDEX; wait"


def farandole_processes(program: Program, word: str) -> List[int]:
    """Processes of this machine whose command line has the word: agents have no mark, sshd starts them."""
    found = []
    for directory in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if word in (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"):
                found.append(int(directory.name))
        except OSError:  # ended meanwhile
            continue
    assert program.pid not in found
    return found


def expect_staying(program: Program, workers: int) -> None:
    """Waits until all workers run."""
    for index in range(workers):
        program.expect(rf"\[{index}\] staying {index}")


# The alias of each worker's host, and its local and cross ranks of their sizes, where the hosts have 2, 1 and 2 slots.
HOROVOD_PLACES = ((2, "0 of 2, 0 of 3"), (2, "1 of 2, 0 of 1"), (3, "0 of 1, 1 of 3"), (4, "0 of 1, 2 of 3"))


def test_workers_fill_the_hosts_in_order(start: Callable[..., Program], aliases: Aliases) -> None:
    script = (
        'echo "$SSH_CONNECTION" on $FARANDOLE_LAUNCH_INDEX of $FARANDOLE_SIZE "$MINE" $PWD; '
        "echo Horovod $HOROVOD_LOCAL_RANK of $HOROVOD_LOCAL_SIZE, $HOROVOD_CROSS_RANK of $HOROVOD_CROSS_SIZE "
        "at $HOROVOD_HOSTNAME in $PYTHONPATH"
    )
    options = ("--horovod", "-np", "4", "-x", "MINE=a  b", *aliases.options(2, 1, 2))
    run = start(*RUN, *options, "sh", "-c", script)
    run.require_end(0)
    for index, (host, local) in enumerate(HOROVOD_PLACES):
        assert re.search(
            rf"^\[{index}\] 127\.0\.0\.1 \d+ 127\.0\.0\.{host} {aliases.port} on {index} of 4 a  b /", run.output, re.M
        ), run.output
        assert re.search(rf"^\[{index}\] Horovod {local} at 127\.0\.0\.{host} in /\S+/_dropin\b", run.output, re.M), (
            run.output
        )


def test_the_environment_is_the_launchers_but_for_what_is_a_hosts(
    start: Callable[..., Program], aliases: Aliases
) -> None:
    """And NCCL gets the interfaces that workers use."""
    script = 'echo "$NCCL_DEBUG" "$MINE" "${CUDA_VISIBLE_DEVICES:-its own}" "$NCCL_SOCKET_IFNAME" "$HOSTNAME"'
    options = ("-np", "1", "--network-interfaces", "127.0.0.0/8", *aliases.options(1))
    given = {"NCCL_DEBUG": "WARN", "MINE": "a  b", "CUDA_VISIBLE_DEVICES": "7", "HOSTNAME": "launchers"}
    run = start(*RUN, *options, "sh", "-c", script, **given)
    run.require_end(0)
    assert re.search(r"^\[0\] WARN a  b its own =lo (?!launchers)", run.output, re.M), run.output


def test_a_host_file_and_this_machine(start: Callable[..., Program], aliases: Aliases, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("localhost slots=1\n127.0.0.2 slots=1  # by ssh\n", encoding="ascii")
    config = ["--ssh-config", str(aliases.keys.config)]
    run = start(*RUN, *config, "--hostfile", str(path), "sh", "-c", 'echo by "${SSH_CONNECTION:-nothing}"')
    run.require_end(0)
    assert "[0] by nothing\n" in run.output and "[1] by 127.0.0.1 " in run.output, run.output


def test_a_job_over_hosts_trains(start: Callable[..., Program], aliases: Aliases, tmp_path: pathlib.Path) -> None:
    worker = [sys.executable, str(pathlib.Path(__file__).parent / "programs" / "over_hosts.py")]
    run = start(*RUN, *aliases.options(1, 2), "--output-filename", str(tmp_path / "output"), *worker)
    run.require_end(0)
    for rank in range(3):
        assert f"[{rank}] sum 6.0 of 3 with TLS\n" in run.output, run.output
    assert (tmp_path / "output/rank.2/stdout").read_text(encoding="ascii") == "sum 6.0 of 3 with TLS\n"


def test_nothing_secret_is_on_a_command_line_or_in_an_environment(
    start: Callable[..., Program], aliases: Aliases
) -> None:
    script = (
        "token=$(cat $FARANDOLE_TOKEN_FILE); stat -c '%a %F' $FARANDOLE_TOKEN_FILE $(dirname $FARANDOLE_TOKEN_FILE); "
        "grep -laF -e $token /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null; "
        "echo $(dirname $FARANDOLE_TOKEN_FILE) searched"
    )
    # The search itself has the token on its command line.
    script = script.replace("grep -laF -e $token", "grep -laF -f $FARANDOLE_TOKEN_FILE")
    run = start(*RUN, *aliases.options(1), "sh", "-c", script)
    run.require_end(0)
    assert "[0] 600 regular file\n[0] 700 directory\n" in run.output, run.output
    assert "/proc/" not in run.output, run.output
    directory = run.expect(r"\[0\] (\S+) searched").group(1)
    assert not pathlib.Path(directory).exists()


def test_a_failing_worker_is_named_with_its_host(start: Callable[..., Program], aliases: Aliases) -> None:
    script = "if [ $FARANDOLE_LAUNCH_INDEX = 1 ]; then echo the reason >&2; exit 3; fi; exec sleep 1000"
    run = start(*RUN, *aliases.options(1, 1), "sh", "-c", script)
    run.require_end(3)
    run.expect(
        r"worker 1 \(pid \d+, host 127\.0\.0\.3\) failed first, with exit code 3, .*; its last lines .* are above"
    )
    assert run.output.startswith("[1] the reason\n"), run.output
    assert "worker 0 ended after that, with SIGTERM" in run.output, run.output


def test_a_far_worker_that_ends_well_before_it_joins_is_named_and_ends_the_job(
    start: Callable[..., Program], aliases: Aliases
) -> None:
    run = start(*RUN, *aliases.options(1, 1), sys.executable, str(EARLY))
    run.require_end(1)
    named = (
        r"farandole: worker 1 \(pid \d+, host 127\.0\.0\.3\) ended with exit code 0 after [\d.]+ m?s, but job early "
    )
    assert re.search(named, run.output), run.output


def test_hosts_that_cannot_be_used_are_all_named_and_nothing_is_started(
    start: Callable[..., Program], aliases: Aliases
) -> None:
    hosts = "127.0.0.2:1,127.0.0.200:1,nosuch.invalid:1"
    run = start(*RUN, "--ssh-config", str(aliases.keys.config), "-H", hosts, "echo", "started")
    run.require_end(1)
    assert "host 127.0.0.200 cannot be reached; ssh says: Host key verification failed." in run.output, run.output
    assert "host nosuch.invalid cannot be reached; ssh says: ssh: Could not resolve hostname" in run.output, run.output
    assert "farandole: nothing was started, because of those 2 hosts\n" in run.output, run.output
    assert "] started" not in run.output, run.output


def test_a_closed_port_and_a_refused_key_are_named_with_the_words_of_ssh(
    start: Callable[..., Program], aliases: Aliases, tmp_path: pathlib.Path
) -> None:
    # Port 1 of a host that listens at another.
    closed = start(*RUN, *aliases.options(1), "--ssh-port", "1", "true")
    closed.require_end(1)
    assert re.search(r"host 127\.0\.0\.2 cannot be reached; ssh says: .*Connection refused", closed.output), (
        closed.output
    )
    key = tmp_path / "stranger"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    config = tmp_path / "config"
    config.write_text(
        aliases.keys.config.read_text(encoding="utf-8").replace(str(aliases.keys.directory / "user"), str(key)),
        encoding="utf-8",
    )
    refused = start(*RUN, "--ssh-config", str(config), "-H", "127.0.0.2:1", "true")
    refused.require_end(1)
    assert re.search(r"host 127\.0\.0\.2 cannot be reached; ssh says: .*Permission denied", refused.output), (
        refused.output
    )


def script_file(path: pathlib.Path, text: str) -> str:
    """An executable shell script."""
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def test_a_missing_program_and_other_versions_are_named(
    start: Callable[..., Program], aliases: Aliases, tmp_path: pathlib.Path
) -> None:
    missing = start(*RUN, *aliases.options(1), "--remote-farandole", "/no/such/farandole", "true")
    missing.require_end(1)
    assert "host 127.0.0.2 has no /no/such/farandole: install it there" in missing.output, missing.output

    version = b"9.9.9"
    # An AgentHello of proto/farandole/v1/agent.proto, and the greeting of the agents before there was one.
    encoded = b"\x08\x01\x12" + bytes([len(version)]) + version
    unreadable = struct.pack("<HI", 1, len(version)) + version
    for hello, words in (
        (encoded, r"has farandole 9\.9\.9 \(agent protocol 1\) as {program}, and this is"),
        (unreadable, r"has another version of farandole as {program}: its greeting cannot be read .*, and this is"),
    ):
        greeting = b"\x01\x7ffarandole agent\n" + struct.pack("<IB", len(hello), 64) + hello
        (tmp_path / "greeting").write_bytes(greeting)
        newer = script_file(tmp_path / "newer", f"cat {tmp_path}/greeting; cat >{tmp_path}/got")
        other = start(*RUN, *aliases.options(1), "--remote-farandole", newer, "true")
        other.require_end(1)
        assert re.search(rf"host 127\.0\.0\.2 {words.format(program=newer)}", other.output), other.output
        assert not (tmp_path / "got").read_bytes(), "it is told nothing"

    older = script_file(tmp_path / "older", "echo \"farandole: unknown command 'host-agent'\" >&2; exit 2")
    unknown = start(*RUN, *aliases.options(1), "--remote-farandole", older, "true")
    unknown.require_end(1)
    assert "ended with exit code 2 instead of beginning; is it another version?" in unknown.output, unknown.output
    assert "unknown command 'host-agent'" in unknown.output, unknown.output


def test_what_a_login_shell_prints_is_skipped(
    start: Callable[..., Program], aliases: Aliases, tmp_path: pathlib.Path
) -> None:
    chatty = script_file(tmp_path / "chatty", f"echo Welcome; exec {harness.CLI} host-agent")
    run = start(*RUN, *aliases.options(1), "--remote-farandole", chatty, "echo", "here")
    run.require_end(0)
    assert run.output == "[0] here\n"


def test_a_missing_command_and_a_missing_directory_are_named(start: Callable[..., Program], aliases: Aliases) -> None:
    run = start(*RUN, *aliases.options(1), "no-such-command")
    run.require_end(127)
    assert "host 127.0.0.2: cannot execute 'no-such-command': not found in PATH" in run.output, run.output


@pytest.mark.parametrize("number", (signal.SIGINT, signal.SIGTERM))
def test_a_signal_ends_workers_everywhere(number: int, start: Callable[..., Program], aliases: Aliases) -> None:
    run = start(*RUN, *aliases.options(1, 1), "sh", "-c", STAYING)
    expect_staying(run, 2)
    run.signal(number)
    run.require_end(128 + number)


@pytest.mark.parametrize("victim", ("guard", "launcher", "ssh", "agent"))
def test_whoever_is_killed_nothing_is_left(
    victim: str, start: Callable[..., Program], aliases: Aliases, tmp_path: pathlib.Path
) -> None:
    # A path of its own, by which its processes are known.
    program = tmp_path / "bin" / f"farandole-{victim}"
    program.parent.mkdir()
    shutil.copy(harness.CLI, program)
    run = start(*RUN, *aliases.options(1, 1), "--remote-farandole", str(program), "sh", "-c", STAYING)
    expect_staying(run, 2)
    children = pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text(encoding="ascii").split()
    agents = [pid for pid in farandole_processes(run, f"{program} host-agent") if is_named(pid, program.name)]
    clients = [pid for pid in farandole_processes(run, f"exec {program} host-agent") if is_named(pid, "ssh")]
    assert len(agents) == 4 and len(clients) == 2, (agents, clients)
    os.kill({"guard": run.pid, "launcher": int(children[0]), "ssh": clients[0], "agent": agents[0]}[victim], 9)
    assert run.end(SOON_SECONDS) != 0
    run.require_nothing_left()
    if victim in ("ssh", "agent"):
        assert re.search(r"worker \d \(pid \d+, host 127\.0\.0\.[23]\) failed first, with ", run.output), run.output


def is_named(pid: int, name: str) -> bool:
    """Whether the process runs the program of this name."""
    try:
        return pathlib.Path(f"/proc/{pid}/exe").resolve().name == name
    except OSError:
        return False


def test_sixty_four_hosts_are_started(start: Callable[..., Program], aliases: Aliases) -> None:
    run = start(*RUN, "--verbose", *aliases.options(*[1] * 64), "sh", "-c", "echo here")
    run.require_end(0)
    assert len(re.findall(r"^\[[ \d]\d\] here$", run.output, re.MULTILINE)) == 64
    print(run.expect(r"all hosts are ready after .*").group())


def test_much_output_of_a_far_worker_is_complete(start: Callable[..., Program], aliases: Aliases) -> None:
    run = start(*RUN, *aliases.options(1, 1), "seq", "1", "100000")
    run.require_end(0)
    for index in range(2):
        lines = re.findall(rf"^\[{index}\] (\d+)$", run.output, re.MULTILINE)
        assert [int(line) for line in lines] == list(range(1, 100001)), index


def test_hosts_with_networks_of_their_own_reach_the_coordinator(
    start: Callable[..., Program], two_hosts: Namespaces
) -> None:
    script = "echo at $FARANDOLE_COORDINATOR"
    run = start(*RUN, *two_hosts.options(1, 1), "sh", "-c", script)
    run.require_end(0)
    network = two_hosts.names[0].rsplit(".", 1)[0]
    for index in range(2):
        assert re.search(rf"^\[{index}\] at {re.escape(network)}\.1:\d+$", run.output, re.MULTILINE), run.output


def test_a_host_that_is_cut_off_is_lost_by_name(start: Callable[..., Program], four_hosts: Namespaces) -> None:
    run = start(*RUN, *four_hosts.options(1, 1, 1, 1), "sh", "-c", STAYING)
    expect_staying(run, 4)
    four_hosts.cut_off(2)
    lost = four_hosts.names[2]
    run.expect(rf"host {re.escape(lost)} is lost: .*; ssh says: Timeout, server {re.escape(lost)} not responding", 60)
    assert run.end() == 255
    assert re.search(
        rf"worker 2 \(pid \d+, host {re.escape(lost)}\) failed first, with the loss of its host", run.output
    )
    assert "workers 0, 1 and 3 ended after that, with SIGTERM" in run.output, run.output
