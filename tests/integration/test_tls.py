"""A shared coordinator with TLS: jobs attach to it by its certificate, and a job with another one gets an error in one
sentence."""

import pathlib
import subprocess
import sys
from typing import Callable, List

import harness
import pytest
from coordinators import Coordinator
from impostors import NAMED, NOBODY, Impostor
from programs_run import Program

OVER_HOSTS = str(pathlib.Path(__file__).parent / "programs" / "over_hosts.py")


def make_certificate(directory: pathlib.Path, names: str = "DNS:localhost,IP:127.0.0.1") -> List[str]:
    """Options of `serve` with a new certificate; the certificate is DIRECTORY/cert.pem."""
    directory.mkdir()
    files = {"-out": directory / "cert.pem", "-keyout": directory / "key.pem"}
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
        + ["-subj", "/CN=test", "-addext", f"subjectAltName={names}"]
        + [str(word) for pair in files.items() for word in pair],
        check=True,
        capture_output=True,
    )
    return ["--tls-cert", str(files["-out"]), "--tls-key", str(files["-keyout"])]


@pytest.fixture
def shared(start: Callable[..., Program], tmp_path: pathlib.Path) -> Coordinator:
    """A coordinator with TLS, known by tmp_path/good/cert.pem."""
    state = tmp_path / "state"
    command = [str(harness.CLI), "serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--state-dir", str(state)]
    return Coordinator(start(*command, *make_certificate(tmp_path / "good")), state)


def test_jobs_attach_by_options_and_by_environment(
    start: Callable[..., Program], shared: Coordinator, tmp_path: pathlib.Path
) -> None:
    run = [str(harness.CLI), "run", "-np", "2", "--attach"]
    worker = [sys.executable, OVER_HOSTS]
    ca = str(tmp_path / "good/cert.pem")
    by_options = start(*run, *shared.options("--ca", ca), *worker)
    by_options.require_end(0)
    assert "[1] sum 3.0 of 2 with TLS\n" in by_options.output, by_options.output
    by_environment = start(
        *run,
        *worker,
        FARANDOLE_COORDINATOR=shared.address.replace("127.0.0.1", "localhost"),
        FARANDOLE_TOKEN_FILE=shared.token_file,
        FARANDOLE_CA_FILE=ca,
    )
    by_environment.require_end(0)
    assert "[0] sum 3.0 of 2 with TLS\n" in by_environment.output, by_environment.output


def test_a_wrong_authority_and_missing_tls_are_said_by_every_command(
    start: Callable[..., Program], shared: Coordinator, tmp_path: pathlib.Path
) -> None:
    make_certificate(tmp_path / "other")
    wrong = ["--ca", str(tmp_path / "other/cert.pem")]
    for options, sentence in (
        (wrong, f"has a certificate that descends from no authority in {wrong[1]} ("),
        ([], "speaks TLS, and no CA file was given"),
    ):
        expected = f"coordinator {shared.address} {sentence}"
        worker = [sys.executable, OVER_HOSTS]
        run = start(str(harness.CLI), "run", "-np", "1", *shared.options(*options), *worker)
        run.require_end(1)
        assert expected in run.output, run.output
        listed = start(str(harness.CLI), "checkpoint", "list", *shared.options(*options))
        listed.require_end(1)
        assert f"farandole checkpoint: {expected}" in listed.output, listed.output


def test_no_token_goes_to_another_host_without_tls(start: Callable[..., Program], tmp_path: pathlib.Path) -> None:
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text("farandole_token", encoding="utf-8")
    for address in ("10.1.2.3:7070", "unixhead:7070"):
        expected = f"coordinator {address} is not on this host, and no CA file was given (--ca, FARANDOLE_CA_FILE)"
        options = ["--coordinator", address, "--token-file", str(token)]
        for command in (["job", "list", *options], ["token", "list", *options], ["run", "-np", "1", *options, "true"]):
            program = start(str(harness.CLI), *command)
            assert program.end(60) != 0
            assert f"{expected}: without TLS the token would travel in the clear" in program.output, program.output
        worker = start(
            *(sys.executable, OVER_HOSTS),
            FARANDOLE_COORDINATOR=address,
            FARANDOLE_TOKEN_FILE=str(token),
            FARANDOLE_SIZE="1",
        )
        assert worker.end(60) != 0
        assert expected in worker.output, worker.output


def test_another_users_program_on_the_port_gets_no_call(start: Callable[..., Program], tmp_path: pathlib.Path) -> None:
    impostor = Impostor(start)
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text("farandole_token", encoding="utf-8")
    options = ["--coordinator", impostor.address, "--token-file", str(token)]
    worker = {
        "FARANDOLE_COORDINATOR": impostor.address,
        "FARANDOLE_TOKEN_FILE": str(token),
        "FARANDOLE_SIZE": "1",
        "FARANDOLE_JOIN_TIMEOUT_MS": "3000",
    }
    for program in (
        start(str(harness.CLI), "job", "list", *options),
        start(str(harness.CLI), "run", "-np", "1", "--start-timeout", "3", *options, "true"),
        start(sys.executable, OVER_HOSTS, **worker),
    ):
        assert program.end(60) != 0
        assert f"port {impostor.port} of this host {NAMED}, not of root" in program.output, program.output
        assert "nothing was sent to it" in program.output, program.output
    impostor.require_nothing_but_a_greeting()
    # A client that trusts its user sends it the call.
    start(str(harness.CLI), "job", "list", *options, FARANDOLE_COORDINATOR_USERS=f"root,{NOBODY}")
    impostor.require_call()


def test_checkpoints_are_listed_over_tls(
    start: Callable[..., Program], shared: Coordinator, tmp_path: pathlib.Path
) -> None:
    listed = start(str(harness.CLI), "checkpoint", "list", *shared.options("--ca", str(tmp_path / "good/cert.pem")))
    listed.require_end(0)
    assert listed.output == "no checkpoints\n"


def test_attach_without_a_coordinator_says_what_is_missing(start: Callable[..., Program]) -> None:
    run = start(str(harness.CLI), "run", "-np", "1", "--attach", "true")
    run.require_end(2)
    assert "--attach needs a coordinator: give --coordinator HOST:PORT, or set FARANDOLE_COORDINATOR" in run.output
