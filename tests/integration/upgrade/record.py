"""Records a tape of the version that is installed in a virtual environment, once for each release:

    .venv/bin/python tests/integration/upgrade/record.py .venv tests/integration/upgrade/tapes/VERSION

It starts a coordinator and a job of three ranks, kills the coordinator, copies its state directory as it is then, starts it
again, and records what the workers and their launcher say to it until the job has ended. Needs root, for a host name of
its own: names of this machine do not belong in the tape.
"""

import contextlib
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

import tape

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
# pylint: disable=wrong-import-position
from coordinators import Coordinator  # noqa: E402
from gates import Gate  # noqa: E402
from programs_run import running  # noqa: E402

HOST = "recorded"
JOB = "upgraded"
# Where the tape's paths point to.
PLACE = pathlib.Path("/tmp/farandole-tape")


def _pack(state: pathlib.Path, path: pathlib.Path) -> None:
    """The state directory, without the files that RocksDB writes for people."""
    with tarfile.open(path, "w:gz") as packed:
        for each in sorted(state.rglob("*")):
            if each.is_file() and not re.fullmatch(r"LOG.*|OPTIONS-.*|LOCK", each.name):
                info = packed.gettarinfo(str(each), str(each.relative_to(state)))
                info.uid = info.gid = 0
                info.uname = info.gname = ""
                with each.open("rb") as content:
                    packed.addfile(info, content)


def record(venv: pathlib.Path, made: pathlib.Path) -> None:
    """Writes state.tar.gz and calls.jsonl."""
    farandole = str(venv / "bin" / "farandole")
    state = PLACE / "state"
    serve = [farandole, "serve", "--state-dir", str(state), "--http", "127.0.0.1:0", "--listen"]
    with contextlib.ExitStack() as stack:
        gate = Gate(PLACE / "gate")
        stack.callback(gate.close)
        first = Coordinator(stack.enter_context(running([*serve, "127.0.0.1:0"], PLACE / "first", {})), state)
        proxy = tape.Proxy(first.address)
        stack.callback(proxy.close)
        program = [str(venv / "bin" / "python"), str(HERE / "recorded_job.py"), str(gate), str(PLACE / "checkpoints")]
        run = [farandole, "run", "-np", "3", "--job", JOB, "--coordinator", proxy.address]
        job = stack.enter_context(running([*run, "--token-file", first.token_file, *program], PLACE / "job", {}))
        for rank in range(3):
            job.expect(rf"\[{rank}\] warm")
        first.program.kill_all()
        _pack(state, made / "state.tar.gz")
        proxy.take()
        again = stack.enter_context(running([*serve, first.address], PLACE / "again", {}))
        again.expect("everybody is back after the coordinator's restart")
        gate.let_through(3)
        job.require_end(0)
        lines = proxy.take()
    begun = {line.call for line in lines if line.what == "begin"}
    tape.write([line for line in lines if line.call in begun], made / "calls.jsonl")


def main() -> None:
    """Runs it once more where the host has another name."""
    venv, made = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    if len(sys.argv) == 3:
        inside = [sys.executable, __file__, str(venv), str(made), "inside"]
        script = f'hostname {HOST} && exec "$@"'
        sys.exit(subprocess.run(["unshare", "--uts", "sh", "-c", script, "sh", *inside], check=False).returncode)
    made.mkdir(parents=True, exist_ok=True)
    PLACE.mkdir(mode=0o700)
    try:
        record(venv, made)
    finally:
        shutil.rmtree(PLACE)


if __name__ == "__main__":
    main()
