"""A coordinator of its own process, and what it counts."""

import pathlib
import re
import urllib.request
from typing import List

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

    def negotiation_messages(self, job: str) -> int:
        """Messages about tensors of a job that this coordinator has received and sent, by its own count."""
        token = pathlib.Path(self.token_file).read_text(encoding="utf-8").strip()
        request = urllib.request.Request(f"http://{self.http}/metrics", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=30) as response:
            text = response.read().decode()
        found = re.search(rf'^farandole_job_negotiation_messages_total{{job="{job}",.*}} (\d+)$', text, re.MULTILINE)
        assert found, f"the coordinator does not count for job {job}:\n{text}"
        return int(found.group(1))
