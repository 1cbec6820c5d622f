"""The control plane for services in Python: lists, shows and watches jobs, diagnoses and ends them, has workers leave,
and makes tenants, as the command `farandole` does, by the same code in the worker library.

    from farandole.client import TLS, Client, TokenSource

    with Client("farandole.example:7070", TokenSource.file("/run/token"), TLS("/etc/ca.pem")) as client:
        for details in client.watch("mnist"):
            print(details.job.state.value, details.job.blocker)

It needs neither grpcio nor protobuf, and takes part in no job.
"""

from ._client import Client
from ._collectives import CollectiveCost, Collectives, LastArrival
from ._findings import (
    Evidence,
    Findings,
    Flight,
    Frame,
    KernelThread,
    Progress,
    RankFindings,
    StackGroup,
    Submission,
    Thread,
    Wait,
)
from ._options import TLS, TokenSource
from ._timeline import Timeline, TimelinePart
from ._types import (
    BarredHost,
    Checkpoint,
    CheckpointRequest,
    Details,
    Elastic,
    Event,
    Gpu,
    GpuUsage,
    Job,
    Member,
    NewToken,
    QueuePlace,
    Role,
    State,
    Tenant,
    Token,
    Worker,
)

__all__ = [
    "TLS",
    "BarredHost",
    "Checkpoint",
    "CheckpointRequest",
    "Client",
    "CollectiveCost",
    "Collectives",
    "Details",
    "Elastic",
    "Event",
    "Evidence",
    "Findings",
    "Flight",
    "Frame",
    "Gpu",
    "GpuUsage",
    "Job",
    "KernelThread",
    "LastArrival",
    "Member",
    "NewToken",
    "Progress",
    "QueuePlace",
    "RankFindings",
    "Role",
    "StackGroup",
    "State",
    "Submission",
    "Tenant",
    "Thread",
    "Timeline",
    "TimelinePart",
    "Token",
    "TokenSource",
    "Wait",
    "Worker",
]
