"""Another user's program on a coordinator's port."""

import pathlib
import sys
from typing import Callable

from programs_run import Program

PROGRAM = str(pathlib.Path(__file__).parent / "programs" / "impostor.py")
NOBODY = 65534
NAMED = f"belongs to a program of user nobody ({NOBODY})"


class Impostor:
    """programs/impostor.py, as the user nobody, on a port of this host (0: any)."""

    def __init__(self, start: Callable[..., Program], port: int = 0) -> None:
        self.program = start(sys.executable, PROGRAM, str(NOBODY), str(port))
        self.port = int(self.program.expect(r"port (\d+)").group(1))
        self.address = f"127.0.0.1:{self.port}"

    def require_nothing_but_a_greeting(self) -> None:
        """It was connected to, as a gRPC server, and got no call."""
        self.program.expect("frame 4")
        assert "frame 1\n" not in self.program.output, self.program.output

    def require_call(self) -> None:
        """It got a call."""
        self.program.expect(r"frame 1\b")
