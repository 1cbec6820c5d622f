"""Hosts to reach by ssh: loopback addresses behind one real sshd, or network namespaces with a real sshd each. Nothing of
the user's own ssh is read or written."""

import contextlib
import itertools
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
from typing import Iterator, List, Sequence

from processes import die_with_parent

SSHD = "/usr/sbin/sshd"
# sshd without systemd wants it to exist.
PRIVILEGE_SEPARATION = pathlib.Path("/run/sshd")
START_SECONDS = 30
# Networks that this process has made.
_NUMBERS = itertools.count()
# Of the locally administered addresses.
_NOBODY = "02:00:00:00:00:01"


def why_not() -> str:
    """Why no sshd can be run here; "" where it can."""
    if shutil.which("ssh") is None or not os.access(SSHD, os.X_OK):
        return "openssh-client and openssh-server are not installed"
    if os.geteuid() != 0 and not PRIVILEGE_SEPARATION.is_dir():
        return f"sshd needs {PRIVILEGE_SEPARATION}, which only root can make"
    return ""


def why_no_namespaces() -> str:
    """Why no network namespace can be made here; "" where one can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "iproute2 is not installed"
    probe = subprocess.run(["unshare", "--net", "true"], capture_output=True, text=True, check=False)
    return probe.stderr.strip() if probe.returncode else ""


def _make_key(path: pathlib.Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(path)], check=True)


class SshKeys:
    """A host's key, a user's key, and the configurations of ssh and sshd for them, in a directory of their own."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        directory.mkdir(mode=0o700)
        self.home = directory / "home"
        self.home.mkdir()
        for name in ("host", "user"):
            _make_key(directory / name)
        shutil.copy(directory / "user.pub", directory / "authorized")
        self.config = directory / "ssh_config"
        self.known_hosts = directory / "known_hosts"

    def temporary(self, address: str) -> pathlib.Path:
        """A temporary directory of its own for a host that shares this one's files."""
        return self.directory / f"tmp.{address}"

    def write_client(self, hosts: Sequence[str], port: int) -> None:
        """Makes ssh's configuration: it knows these hosts, all at this port, and no others."""
        key = (self.directory / "host.pub").read_text(encoding="ascii").strip()
        names = (f"[{host}]:{port}" if port != 22 else host for host in hosts)
        self.known_hosts.write_text("".join(f"{name} {key}\n" for name in names), encoding="ascii")
        self.config.write_text(
            f"Host *\n  Port {port}\n  IdentityFile {self.directory / 'user'}\n  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {self.known_hosts}\n  GlobalKnownHostsFile /dev/null\n",
            encoding="utf-8",
        )

    def write_server(self, address: str, port: int) -> pathlib.Path:
        """Makes a configuration of sshd, and returns its path."""
        path = self.directory / f"sshd_config.{address}"
        self.temporary(address).mkdir(exist_ok=True)
        path.write_text(
            f"ListenAddress {address}:{port}\nHostKey {self.directory / 'host'}\nPidFile none\nUsePAM no\n"
            f"AuthorizedKeysFile {self.directory / 'authorized'}\nStrictModes no\nPermitRootLogin yes\n"
            # A login shell must not spend its time on a developer's settings.
            f"PasswordAuthentication no\nUseDNS no\nSetEnv HOME={self.home} TMPDIR={self.temporary(address)}\n"
            # One server plays many hosts, all of which are reached at once.
            "MaxStartups 200\n",
            encoding="utf-8",
        )
        return path


class SshServer:
    """A running sshd."""

    def __init__(self, keys: SshKeys, address: str, port: int, prefix: Sequence[str] = ()) -> None:
        PRIVILEGE_SEPARATION.mkdir(mode=0o755, exist_ok=True)
        self.log = keys.directory / f"sshd.{address}.log"
        command = [*prefix, SSHD, "-D", "-e", "-f", str(keys.write_server(address, port))]
        with self.log.open("wb") as log:
            # pylint: disable-next=subprocess-popen-preexec-fn
            self._process = subprocess.Popen(command, stderr=log, stdin=subprocess.DEVNULL, preexec_fn=die_with_parent)
        self.pid = self._process.pid
        self._await_log("Server listening on")

    def _await_log(self, text: str) -> None:
        """sshd writes a line when it can be reached; its log is a file, whose growth inotify would show no sooner than
        this."""
        with subprocess.Popen(
            ["tail", "--follow", "--lines=+1", f"--pid={self._process.pid}", str(self.log)],
            stdout=subprocess.PIPE,
            text=True,
        ) as tail:
            seen: List[str] = []
            for line in tail.stdout:
                seen.append(line)
                if text in line:
                    tail.terminate()
                    return
        raise AssertionError(f"sshd does not start: {''.join(seen)}")

    def stop(self) -> None:
        """Ends it; sessions go on."""
        self._process.terminate()
        self._process.wait(START_SECONDS)


def free_port() -> int:
    """A TCP port that is free on all addresses at the moment."""
    with socket.socket() as probe:
        probe.bind(("0.0.0.0", 0))
        return probe.getsockname()[1]


class Aliases:
    """Many hosts 127.0.0.2, 127.0.0.3, ... of one sshd. They are one machine, and share its memory."""

    def __init__(self, directory: pathlib.Path, count: int) -> None:
        self.names = [f"127.0.0.{i + 2}" for i in range(count)]
        self.port = free_port()
        self.keys = SshKeys(directory)
        self.keys.write_client(self.names, self.port)
        self.server = SshServer(self.keys, "0.0.0.0", self.port)

    def options(self, *slots: int) -> List[str]:
        """For `farandole run`: so many slots on the first, second, ... host."""
        hosts = ",".join(f"{name}:{count}" for name, count in zip(self.names, slots))
        return ["--ssh-config", str(self.keys.config), "--hosts", hosts]

    def close(self) -> None:
        """Ends sshd."""
        self.server.stop()


class Namespaces:
    """Hosts 10.213.N.2, ... in network namespaces of their own, bridged with this machine (10.213.N.1), each with its own
    sshd. They share the file system; only their networks differ."""

    PORT = 22

    def __init__(self, directory: pathlib.Path, count: int) -> None:
        made = next(_NUMBERS)
        number = (os.getpid() * 8 + made) % 250 + 1
        # At most 15 letters for a network's name, of which two follow. One may live as long as all that come after it.
        self.tag = f"fd{os.getpid()}p{made:x}"
        self.bridge = f"{self.tag}b"
        self.machine = f"10.213.{number}.1"
        self.names = [f"10.213.{number}.{i + 2}" for i in range(count)]
        self.namespaces = [f"{self.tag}n{i}" for i in range(count)]
        self.servers: List[SshServer] = []
        self.keys = SshKeys(directory)
        self.keys.write_client(self.names, self.PORT)
        _remove_abandoned()
        try:
            self._make()
        except BaseException:
            self.close()
            raise

    def _make(self) -> None:
        _ip("link", "add", self.bridge, "type", "bridge")
        _ip("addr", "add", f"{self.machine}/24", "dev", self.bridge)
        _ip("link", "set", self.bridge, "up")
        for i, (name, namespace) in enumerate(zip(self.names, self.namespaces)):
            outside = f"{self.tag}v{i}"
            _ip("netns", "add", namespace)
            _ip("link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", namespace)
            _ip("link", "set", outside, "master", self.bridge, "up")
            _ip("-n", namespace, "addr", "add", f"{name}/24", "dev", "eth0")
            _ip("-n", namespace, "link", "set", "eth0", "up")
            _ip("-n", namespace, "link", "set", "lo", "up")
            self.servers.append(SshServer(self.keys, name, self.PORT, self.inside(i)))

    def options(self, *slots: int) -> List[str]:
        """For `farandole run`: so many slots on the first, second, ... host."""
        hosts = ",".join(f"{name}:{count}" for name, count in zip(self.names, slots))
        return ["--ssh-config", str(self.keys.config), "--hosts", hosts]

    def cut_off(self, index: int) -> None:
        """Takes a host off the network: nothing comes through any more, without an error at either end."""
        _ip("link", "set", f"{self.tag}v{index}", "down")

    def put_back(self, index: int) -> None:
        """Takes a cut_off back."""
        _ip("link", "set", f"{self.tag}v{index}", "up")

    def cut(self, one: int, other: "int | None") -> None:
        """Lets nothing through between two hosts, or between a host and this machine (None), without an error at either
        end: each takes the other to be at an unused address of the link."""
        self._misdirect(one, self._address(other), True)
        self._misdirect(other, self._address(one), True)

    def heal(self, one: int, other: "int | None") -> None:
        """Takes a cut back."""
        self._misdirect(one, self._address(other), False)
        self._misdirect(other, self._address(one), False)

    def inside(self, index: int) -> List[str]:
        """Before a command: it runs on that host."""
        return ["ip", "netns", "exec", self.namespaces[index]]

    def _address(self, index: "int | None") -> str:
        return self.machine if index is None else self.names[index]

    def _misdirect(self, index: "int | None", address: str, away: bool) -> None:
        where, device = ([], self.bridge) if index is None else (["-n", self.namespaces[index]], "eth0")
        if away:
            _ip(*where, "neigh", "replace", address, "lladdr", _NOBODY, "nud", "permanent", "dev", device)
        else:
            _ip(*where, "neigh", "del", address, "dev", device)

    def slow_down(self, index: int, rate: str, burst: str = "64kb") -> None:
        """Limits what a host sends and receives: "20mbit". A rate of gigabits needs a burst of megabytes."""
        shape = ["root", "tbf", "rate", rate, "burst", burst, "latency", "50ms"]
        for prefix, device in (([], f"{self.tag}v{index}"), (["-n", self.namespaces[index]], "eth0")):
            done = subprocess.run(
                ["tc", *prefix, "qdisc", "replace", "dev", device, *shape], capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr

    def close(self) -> None:
        """Ends the servers and takes the networks away."""
        for server in self.servers:
            server.stop()
        for namespace in self.namespaces:
            _remove_namespace(namespace)
        # A network that is taken away is so at some later time; what it has here need not wait for that.
        for i in range(len(self.names)):
            subprocess.run(["ip", "link", "del", f"{self.tag}v{i}"], check=False, capture_output=True)
        subprocess.run(["ip", "link", "del", self.bridge], check=False, capture_output=True)


def _remove_namespace(namespace: str) -> None:
    # The session of a host that was cut off waits for hours, and keeps the network with it.
    listed = subprocess.run(["ip", "netns", "pids", namespace], check=False, capture_output=True, text=True)
    for pid in listed.stdout.split():
        with contextlib.suppress(ProcessLookupError):  # the end of one may be another's
            os.kill(int(pid), signal.SIGKILL)
    subprocess.run(["ip", "netns", "del", namespace], check=False, capture_output=True)


def _remove_abandoned() -> None:
    """Takes away what processes have left behind that were killed. Names begin with the number of their process."""
    for listing, remove in (
        (["ip", "netns", "list"], _remove_namespace),
        (
            ["ip", "-br", "link", "show", "type", "bridge"],
            lambda bridge: subprocess.run(["ip", "link", "del", bridge], check=False, capture_output=True),
        ),
    ):
        listed = subprocess.run(listing, check=False, capture_output=True, text=True)
        for name in re.findall(r"^fd\d+p[0-9a-f]+[nb]\d*", listed.stdout, re.MULTILINE):
            pid = name[2 : name.index("p")]
            if not pathlib.Path("/proc", pid).exists():
                remove(name)


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(arguments)}: {done.stderr}"


def aliases_in(directory: pathlib.Path, count: int) -> Iterator[Aliases]:
    """A fixture's body."""
    made = Aliases(directory, count)
    yield made
    made.close()


def namespaces_in(directory: pathlib.Path, count: int) -> Iterator[Namespaces]:
    """A fixture's body."""
    made = Namespaces(directory, count)
    yield made
    made.close()
