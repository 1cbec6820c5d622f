"""`farandole run` of elastic jobs over hosts by a real ssh: hosts that come, go and are lost, and a launcher that is
killed."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from typing import Callable

import harness
from coordinators import Coordinator
from elastic_jobs import PROGRAMS
from gates import Gate
from hosts import Aliases, Namespaces
from programs_run import Program

RUN = [str(harness.CLI), "run"]
# A worker that goes on until it must leave, and then leaves in order.
STAYING = "trap 'echo left $FARANDOLE_LAUNCH_INDEX; exit 0' TERM; echo staying; sleep 1000 & wait"


def test_listed_hosts_get_workers_and_others_lose_them(
    start: Callable[..., Program], aliases: Aliases, tmp_path: pathlib.Path
) -> None:
    listed = tmp_path / "listed"
    listed.write_text("127.0.0.2:1\n", encoding="ascii")
    run = start(
        *(*RUN, "-np", "1", "--max-np", "3", "--ssh-config", str(aliases.keys.config)),
        *("--host-discovery-script", f"cat {listed}", "--slots-per-host", "2", "sh", "-c", STAYING),
    )
    run.expect(r"\[0\] staying")
    listed.write_text("127.0.0.2:1\n127.0.0.3\n", encoding="ascii")
    run.expect(r"worker 1 is started on host 127\.0\.0\.3, pid ")
    run.expect(r"\[2\] staying")
    listed.write_text("127.0.0.3\n", encoding="ascii")
    run.expect(r"host 127\.0\.0\.2 is not listed any more: worker 0 is asked to leave")
    run.expect(r"\[0\] left 0")
    assert "[1] left" not in run.output and "[2] left" not in run.output, run.output
    run.signal(signal.SIGTERM)
    run.require_end(128 + signal.SIGTERM)


def test_a_host_with_fewer_places_loses_its_youngest_worker(
    start: Callable[..., Program], aliases: Aliases, tmp_path: pathlib.Path
) -> None:
    listed = tmp_path / "listed"
    listed.write_text("127.0.0.2:3\n", encoding="ascii")
    run = start(
        *(*RUN, "-np", "3", "--min-np", "1", "--ssh-config", str(aliases.keys.config)),
        *("--host-discovery-script", f"cat {listed}"),
        *(sys.executable, str(PROGRAMS / "elastic_stepping.py"), str(tmp_path)),
    )
    run.expect(r"\[2\] step \d+ of 3")
    listed.write_text("127.0.0.2:2\n", encoding="ascii")
    run.expect(r"host 127\.0\.0\.2 has only 2 places now: worker 2 is asked to leave")
    run.expect(r"\[0\] step \d+ of 2")
    run.expect(r"\[1\] step \d+ of 2")
    (tmp_path / "stop").touch()
    run.require_end(0)
    assert "worker 3 is started" not in run.output and "Traceback" not in run.output, run.output


def test_a_script_that_fails_changes_nothing(
    start: Callable[..., Program], aliases: Aliases, tmp_path: pathlib.Path
) -> None:
    listed = tmp_path / "listed"
    listed.write_text("127.0.0.2:1\n", encoding="ascii")
    run = start(
        *(*RUN, "-np", "1", "--ssh-config", str(aliases.keys.config), "--host-discovery-script", f"cat {listed}"),
        *("sh", "-c", STAYING),
    )
    run.expect(r"\[0\] staying")
    listed.unlink()
    run.expect(r"host discovery: 'cat .*/listed': it ended with exit code 1: cat: .*No such file or directory")
    run.signal(signal.SIGTERM)
    run.require_end(128 + signal.SIGTERM)
    assert "not listed any more" not in run.output, run.output


def test_a_lost_host_is_named_and_another_takes_its_worker(
    start: Callable[..., Program], four_hosts: Namespaces
) -> None:
    run = start(*RUN, "-np", "2", "--min-np", "1", "--max-np", "2", *four_hosts.options(1, 1, 1), "sh", "-c", STAYING)
    run.expect(r"\[0\] staying")
    run.expect(r"\[1\] staying")
    four_hosts.cut_off(1)
    lost, other = (re.escape(four_hosts.names[index]) for index in (1, 2))
    run.expect(rf"host {lost} is lost: ")
    # The first two are numbered as their hosts are reached.
    run.expect(rf"worker [01] \(pid \d+, host {lost}\) ended with the loss of its host after ")
    run.expect(rf"worker 2 is started on host {other}, pid ")
    run.expect(r"\[2\] staying")
    run.signal(signal.SIGTERM)
    assert run.end() == 128 + signal.SIGTERM


def test_a_worker_that_is_stopped_does_not_keep_a_finished_job(
    start: Callable[..., Program], tmp_path: pathlib.Path
) -> None:
    worker = (sys.executable, str(PROGRAMS / "elastic_stepping.py"), str(tmp_path))
    run = start(*RUN, "-np", "2", "--min-np", "1", "--max-np", "2", *worker)
    run.expect(r"step \d+ of 2")
    pids = subprocess.run(["pgrep", "-f", "^" + " ".join(worker)], stdout=subprocess.PIPE, text=True, check=True).stdout
    os.kill(int(pids.split()[0]), signal.SIGSTOP)
    run.expect(r"step \d+ of 1")
    (tmp_path / "stop").touch()
    run.require_end(0)


def test_a_worker_that_is_stopped_for_long_is_killed_on_its_host_and_replaced(
    start: Callable[..., Program], aliases: Aliases, tmp_path: pathlib.Path
) -> None:
    worker = (sys.executable, str(PROGRAMS / "elastic_stepping.py"), str(tmp_path))
    run = start(
        *RUN, "-np", "2", "--min-np", "1", "--max-np", "2", "--lost-timeout", "0.5", *aliases.options(1, 1), *worker
    )
    run.expect(r"step \d+ of 2")
    pids = subprocess.run(["pgrep", "-f", "^" + " ".join(worker)], stdout=subprocess.PIPE, text=True, check=True).stdout
    victim = pids.split()[0]
    os.kill(int(victim), signal.SIGSTOP)
    lost = run.expect(
        r"worker (\d), host (\S+), was lost [\d.]+ s ago, and its process is still there: it is killed; "
        r"rank \d .* was lost: nothing was heard of it for "
    )
    run.expect(rf"worker {lost.group(1)} \(pid {victim}, host {re.escape(lost.group(2))}\) ended with SIGKILL after ")
    run.expect(rf"worker 2 is started on host {re.escape(lost.group(2))}, pid ")
    run.expect(r"\[2\] step \d+ of 2")
    (tmp_path / "stop").touch()
    run.require_end(0)


def test_a_worker_that_hangs_in_its_program_is_lost_after_the_stall_limit_and_replaced(
    start: Callable[..., Program], tmp_path: pathlib.Path
) -> None:
    run = start(
        *(*RUN, "-np", "2", "--min-np", "1", "--max-np", "2", "--lost-timeout", "0.5", sys.executable),
        *(str(PROGRAMS / "elastic_stepping.py"), str(tmp_path), "--die", "hang"),
        FARANDOLE_STALL_WARNING_MS="500",
        FARANDOLE_STALL_LIMIT_MS="2000",
    )
    run.expect(r"step \d+ of 2")
    (tmp_path / "die-1").touch()
    run.expect(
        r"worker 1 was lost [\d.]+ s ago, and its process is still there: it is killed; "
        r"rank \d \(.*\) was lost: it has not submitted steps, for which rank \d has waited [\d.]+ s; 2 s is the most"
    )
    run.expect(r"\[2\] step \d+ of 2")
    (tmp_path / "stop").touch()
    run.require_end(0)


def test_a_program_that_fails_again_and_again_ends_its_job(start: Callable[..., Program]) -> None:
    run = start(
        *(*RUN, "-np", "2", "--min-np", "2", sys.executable),
        *(str(PROGRAMS / "elastic_failing.py"),),
    )
    run.expect(r"5 times in a row a worker failed within 60\.0 s of its start, the last one with exit code 1")
    run.expect(r"the job has failed: .* left cannot go on: at least 2 are needed")
    run.require_end(1)


def test_a_host_on_which_a_worker_fails_is_barred_for_a_while(
    start: Callable[..., Program], aliases: Aliases, tmp_path: pathlib.Path
) -> None:
    run = start(
        *(*RUN, "-np", "2", "--min-np", "1", "--max-np", "2", "--blacklist-cooldown-range", "2", "4"),
        *(
            *aliases.options(1, 1),
            sys.executable,
            str(PROGRAMS / "elastic_stepping.py"),
            str(tmp_path),
            "--die",
            "step",
        ),
    )
    # Workers are numbered as their hosts are reached.
    steps = run.expect(r"\[(\d)\] step \d+ of 2")
    doomed = 1 - int(steps.group(1))
    began = time.monotonic()
    (tmp_path / f"die-{doomed}").touch()
    host = re.escape(run.expect(rf"worker {doomed} \(pid \d+, host (\S+)\) ").group(1))
    run.expect(rf"host {host} is barred for [\d.]+ s: host \S+ is barred for [\d.]+ s after 1 failure")
    run.expect(r"step \d+ of 1")
    run.expect(rf"worker 2 is started on host {host}, pid ")
    assert time.monotonic() - began >= 2, "its bar was over before"
    run.expect(r"\[2\] step \d+ of 2")
    (tmp_path / "stop").touch()
    run.require_end(0)


def test_a_host_that_cannot_be_reached_does_not_keep_the_others(
    start: Callable[..., Program], aliases: Aliases
) -> None:
    hosts = "127.0.0.200:1,127.0.0.2:2"
    config = ["--ssh-config", str(aliases.keys.config)]
    run = start(*RUN, "-np", "2", "--min-np", "1", "--max-np", "2", *config, "-H", hosts, "sh", "-c", "echo here")
    run.require_end(0)
    assert "host 127.0.0.200 cannot be reached; ssh says: Host key verification failed." in run.output, run.output
    assert re.search(r"^\[\d\] here$", run.output, re.MULTILINE), run.output


def test_workers_elsewhere_outlive_a_launcher_with_a_shared_coordinator(
    start: Callable[..., Program], serve: Callable[..., Coordinator], aliases: Aliases, gate: Gate
) -> None:
    coordinator = serve()
    script = f"trap '' TERM; echo staying; head -c 1 <{gate}; echo printed; echo over >$PWD/over"
    run = start(
        *(*RUN, *coordinator.options("-np", "1", "--min-np", "1"), *aliases.options(1)),
        *("sh", "-c", script),
    )
    run.expect(r"\[0\] staying")
    os.kill(run.pid, signal.SIGKILL)
    assert run.end() == -signal.SIGKILL
    gate.let_through(1)
    run.require_nothing_left()
    assert (run.directory / "over").exists()
