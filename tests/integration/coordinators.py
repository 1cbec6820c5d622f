"""A coordinator of its own process, and what it counts."""

import pathlib
import re
import subprocess
import urllib.request
from typing import Dict, List

from programs_run import Program


class Coordinator:
    """A running `farandole serve`."""

    def __init__(self, program: Program, state: pathlib.Path) -> None:
        self.program = program
        self.state = state
        found = program.expect(r"listening on (\S+), state in .*, token in (.*), HTTP on (\S+)")
        self.address, self.token_file, self.http = found.groups()

    def options(self, *more: str) -> List[str]:
        """For `farandole run`: to use this coordinator."""
        return ["--coordinator", self.address, "--token-file", self.token_file, *more]

    def make_tenant(self, cli: str, tenant: str, directory: pathlib.Path) -> str:
        """The first token of a new tenant, which is in a file of the directory too."""
        path = directory / f"{tenant}.token"
        command = [cli, "tenant", "create", tenant, "--out", str(path), *self.options()]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=60)
        return path.read_text(encoding="utf-8").strip()

    def metrics(self) -> Dict[str, float]:
        """The rows of /metrics: a value by its name with labels."""
        token = pathlib.Path(self.token_file).read_text(encoding="utf-8").strip()
        request = urllib.request.Request(f"http://{self.http}/metrics", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=30) as response:
            lines = response.read().decode().splitlines()
        rows = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return {name: float(value) for name, value in rows}

    def resident_mib(self) -> float:
        """The process's memory."""
        status = pathlib.Path(f"/proc/{self.program.pid}/status").read_text(encoding="utf-8")
        return int(re.search(r"VmRSS:\s+(\d+) kB", status).group(1)) / 1024

    def negotiation_messages(self, job: str) -> int:
        """Messages about tensors of a job that this coordinator has received and sent, by its own count."""
        rows = self.metrics()
        start = f'farandole_job_negotiation_messages_total{{job="{job}",'
        found = [value for name, value in rows.items() if name.startswith(start)]
        assert found, f"the coordinator does not count for job {job}:\n{rows}"
        return int(found[0])
