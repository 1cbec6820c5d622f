"""Starts a coordinator and asks it by farandole.client: `control_plane.py MODULE...` imports these modules first."""

import importlib
import re
import subprocess
import sys
import tempfile

for name in sys.argv[1:]:
    importlib.import_module(name)

from farandole.client import Client, TokenSource  # noqa: E402

with tempfile.TemporaryDirectory() as state:
    command = ["farandole", "serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--state-dir", state]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as coordinator:
        try:
            lines = iter(coordinator.stdout.readline, "")
            address, token = next(
                found.groups()
                for found in (re.search(r"listening on (\S+), state in .*, token in ([^\s,]+)", line) for line in lines)
                if found
            )
            with Client(address, TokenSource.file(token)) as client:
                own = client.create_tenant("vision")
                print("jobs:", client.jobs(), "of a tenant:", Client(address, own).jobs())
                try:
                    client.job("mnist")
                except LookupError as error:
                    print("told:", error)
        finally:
            coordinator.terminate()

print("beside:", sorted({"google.protobuf", "grpc", "tensorflow"} & sys.modules.keys()))
