"""A coordinator's answers about its jobs. The numbers of fields are those of proto/farandole/v1."""

import dataclasses
import datetime
import enum
from typing import List, Optional

from . import _wire


class State(enum.Enum):
    """Where a job is in its life."""

    FORMING = "forming"
    """It waits for workers."""
    RUNNING = "running"
    """An epoch runs."""
    FINISHED = "finished"
    """All workers left in order."""
    FAILED = "failed"
    """The epoch ended for another reason, and no next one forms."""
    QUEUED = "queued"
    """Its launch waits until the tenant's quota has room for it."""
    UNKNOWN = "unknown"
    """A state that this version does not know."""


_STATES = {1: State.FORMING, 2: State.RUNNING, 3: State.FINISHED, 4: State.FAILED, 5: State.QUEUED}


def _state(number: int) -> State:
    return _STATES.get(number, State.UNKNOWN)


@dataclasses.dataclass(frozen=True)
class Elastic:
    """The bounds of an elastic job: fewest and most workers of an epoch."""

    min_size: int = _wire.whole(1)
    max_size: int = _wire.whole(2)


@dataclasses.dataclass(frozen=True)
class GpuUsage:
    """Of the workers of an epoch that have told of their GPUs, added up."""

    gpus: int = _wire.whole(1)
    telling_gpus: int = _wire.whole(2)
    """Those that say how busy they are."""
    busy_percent: float = _wire.real(3)
    """The mean of what they say, 0 to 100."""
    memory_used_bytes: int = _wire.whole(4)
    memory_total_bytes: int = _wire.whole(5)


@dataclasses.dataclass(frozen=True)
class QueuePlace:
    """The place of a launch that waits until its tenant's quota has room for it."""

    position: int = _wire.whole(1)
    """From 1."""
    length: int = _wire.whole(2)
    """So many wait for the same room: those of the tenant, or of its cohort."""
    reason: str = _wire.text(3)
    """One sentence: why it does not start now."""


@dataclasses.dataclass(frozen=True)
class Job:
    """A job in short."""

    tenant: str = _wire.text(1)
    name: str = _wire.text(2)
    state: State = _wire.choice(3, _state, State.UNKNOWN)
    reason: str = _wire.text(4)
    """One sentence: why the job is in this state."""
    epoch: int = _wire.whole(5)
    size: int = _wire.whole(6)
    wanted_size: int = _wire.whole(7)
    created: Optional[datetime.datetime] = _wire.moment(8)
    batches_per_second: float = _wire.real(9)
    """Collectives, over the last heartbeats of rank 0."""
    last_stall: str = _wire.text(10)
    """The last stall sentence of this epoch; "" if there was none."""
    last_stall_at: Optional[datetime.datetime] = _wire.moment(11)
    elastic: Optional[Elastic] = _wire.message(12, Elastic)
    """None: the job is not elastic."""
    waiting: int = _wire.whole(13)
    """Workers that wait to join while an epoch runs."""
    resets: int = _wire.whole(14)
    """Epochs that ended by a loss."""
    gpus: Optional[GpuUsage] = _wire.message(15, GpuUsage)
    """None: no worker has said anything of its GPU in this epoch."""
    queue: Optional[QueuePlace] = _wire.message(40, QueuePlace)
    """None: the job is not queued."""
    steps_per_second: Optional[float] = _wire.optional_real(35)
    """Over the last half minute of rank 0; None: not measured, or not yet."""

    @property
    def has_ended(self) -> bool:
        """Whether the job will not change any more."""
        return self.state in (State.FINISHED, State.FAILED)

    @property
    def blocker(self) -> str:
        """The sentence that tells what the job waits for; "": nothing that the coordinator knows. A running job's is its
        last stall, which may be over: `last_stall_at` tells its age."""
        sentences = {State.FORMING: self.reason, State.QUEUED: self.reason, State.RUNNING: self.last_stall}
        return sentences.get(self.state, "")


@dataclasses.dataclass(frozen=True)
class Gpu:
    """The last report about one worker's GPU."""

    name: str = _wire.text(1)
    busy_percent: Optional[int] = _wire.optional_whole(2)
    """0 to 100; None: it does not tell."""
    memory_used_bytes: int = _wire.whole(3)
    memory_total_bytes: int = _wire.whole(4)


@dataclasses.dataclass(frozen=True)
class Member:
    """The process of a worker."""

    incarnation: str = _wire.text(1)
    """A restarted process is another worker, with another one."""
    host_id: str = _wire.text(2)
    hostname: str = _wire.text(3)
    pid: int = _wire.whole(4)


@dataclasses.dataclass(frozen=True)
class Worker:
    """One worker of a job."""

    rank: int = _wire.whole(1)
    """It means nothing in the state "waiting"."""
    member: Member = _wire.message(2, Member, Member())
    silence: float = _wire.seconds(3)
    """How many seconds ago it was last heard of."""
    batches: int = _wire.whole(4)
    state: str = _wire.text(5)
    """"live", "draining", "left", "lost: ...", "ended", "returning" or "waiting"."""
    gpu: Optional[Gpu] = _wire.message(6, Gpu)
    missed: bool = _wire.flag(7)
    """True: this worker left before another worker's program failed, which may have failed for lack of it."""


@dataclasses.dataclass(frozen=True)
class Event:
    """One decision about a job."""

    at: Optional[datetime.datetime] = _wire.moment(1)
    sentence: str = _wire.text(2)


@dataclasses.dataclass(frozen=True)
class BarredHost:
    """A host on which workers failed: joins from it are refused for a while."""

    hostname: str = _wire.text(1)
    failures: int = _wire.whole(2)
    barred: float = _wire.seconds(3)
    """For how many seconds more."""


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """A row of a job's catalogue."""

    name: str = _wire.text(1)
    step: int = _wire.whole(2)
    fencing_token: int = _wire.whole(3)
    """The one that it was written under; a later grant has a greater one."""
    path: str = _wire.text(4)
    """Absolute, on the writer's host."""
    size_bytes: int = _wire.whole(5)
    sha256: str = _wire.digest(6)
    committed: Optional[datetime.datetime] = _wire.moment(7)
    epoch: int = _wire.whole(8)
    """The writer's, as its rank."""
    rank: int = _wire.whole(9)


@dataclasses.dataclass(frozen=True)
class CheckpointRequest:
    """Somebody has asked a job's program for a checkpoint."""

    number: int = _wire.whole(1)
    """Counts the job's requests, from 1."""
    asker: str = _wire.text(2)
    """The one who asked first: "token 0123456789abcdef (operator of tenant vision)"."""
    since: Optional[datetime.datetime] = _wire.moment(3)
    times: int = _wire.whole(4)
    """How often it was asked for; all askers get the same checkpoint."""
    told: Optional[datetime.datetime] = _wire.moment(6)
    """When all ranks of the program were told; None: they have not called `checkpoint_requested()` since."""
    over: Optional[datetime.datetime] = _wire.moment(8)
    """None: it is pending."""
    checkpoint: Optional[Checkpoint] = _wire.message(9, Checkpoint)
    """What was written; None: nothing yet, or see `failure`."""
    failure: str = _wire.text(10)
    """A sentence that says why there is no checkpoint, once the request is over."""

    @property
    def is_pending(self) -> bool:
        """Whether the checkpoint may still come."""
        return self.over is None


@dataclasses.dataclass(frozen=True)
class Details:
    """A job with its workers and its history."""

    job: Job = _wire.message(1, Job, Job())
    workers: List[Worker] = _wire.messages(2, Worker)
    history: List[Event] = _wire.messages(3, Event)
    """The newest 256, the oldest first."""
    negotiation_messages: int = _wire.whole(4)
    """About tensors, in this epoch: constant in the steady state."""
    barred_hosts: List[BarredHost] = _wire.messages(5, BarredHost)
    checkpoint_request: Optional[CheckpointRequest] = _wire.message(96, CheckpointRequest)
    """The last one; None: nobody has asked."""


@dataclasses.dataclass(frozen=True)
class JobList:
    """An answer."""

    jobs: List[Job] = _wire.messages(1, Job)
    next_page: str = _wire.text(80)


@dataclasses.dataclass(frozen=True)
class CheckpointList:
    """An answer."""

    checkpoints: List[Checkpoint] = _wire.messages(1, Checkpoint)
    next_page: str = _wire.text(80)


@dataclasses.dataclass(frozen=True)
class DeletedCheckpoint:
    """An answer."""

    checkpoint: Checkpoint = _wire.message(1, Checkpoint)


@dataclasses.dataclass(frozen=True)
class RequestedCheckpoint:
    """An answer."""

    request: CheckpointRequest = _wire.message(1, CheckpointRequest, CheckpointRequest())


@dataclasses.dataclass(frozen=True)
class Tenant:
    """A tenant, its quota, and what it uses of that."""

    name: str = _wire.text(1)
    max_jobs: int = _wire.whole(2)
    """The most jobs that it may run at a time."""
    max_workers: int = _wire.whole(3)
    """The most workers in them together."""
    created: Optional[datetime.datetime] = _wire.moment(4)
    tokens: int = _wire.whole(5)
    """Those that are good."""
    jobs: int = _wire.whole(6)
    """Those that form or run."""
    workers: int = _wire.whole(7)
    """Those that they want."""
    cohort: str = _wire.text(40)
    """Tenants of one cohort lend each other the workers that they do not use; "": it is in none."""
    weight: int = _wire.whole(41)
    """How much of the cohort's is its fair part, beside the others'."""
    borrow: int = _wire.whole(42)
    """The most workers beyond its own that it may have from its cohort."""
    queued_jobs: int = _wire.whole(43)
    queued_workers: int = _wire.whole(44)
    """Those that its queued jobs want."""
    store_bytes: int = _wire.whole(80)
    """Its rows in the coordinator's store, as they were measured last."""
    max_store_bytes: int = _wire.whole(81)


@dataclasses.dataclass(frozen=True)
class TenantList:
    """An answer."""

    tenants: List[Tenant] = _wire.messages(1, Tenant)
    next_page: str = _wire.text(2)


@dataclasses.dataclass(frozen=True)
class SetQuota:
    """An answer."""

    tenant: Tenant = _wire.message(1, Tenant, Tenant())


class Role(enum.Enum):
    """The rights of a token; docs/security.md has the table. Each of a tenant's may do what the ones before it may."""

    VIEWER = "viewer"
    """Sees the tenant's jobs."""
    LAUNCHER = "launcher"
    """Starts jobs, joins them, and ends its own."""
    OPERATOR = "operator"
    """Ends, drains and deletes all jobs of the tenant."""
    ADMIN = "admin"
    """Makes, rotates and revokes the tenant's tokens."""
    AUDITOR = "auditor"
    """Of the cluster: sees the jobs of all tenants."""
    CLUSTER_OPERATOR = "cluster-operator"
    """Of the cluster: sees the same, and the metrics."""
    ROOT = "root"
    """Of the cluster: may do everything."""
    UNKNOWN = "unknown"
    """A role that this version does not know."""


ROLES = [Role.VIEWER, Role.LAUNCHER, Role.OPERATOR, Role.ADMIN, Role.AUDITOR, Role.CLUSTER_OPERATOR, Role.ROOT]


def _role(number: int) -> Role:
    return ROLES[number - 1] if 1 <= number <= len(ROLES) else Role.UNKNOWN


@dataclasses.dataclass(frozen=True)
class Token:
    """A token, without its text."""

    id: str = _wire.text(1)
    """Names it, and is no secret."""
    tenant: str = _wire.text(2)
    role: Role = _wire.choice(3, _role, Role.UNKNOWN)
    label: str = _wire.text(4)
    created: Optional[datetime.datetime] = _wire.moment(5)
    expires: Optional[datetime.datetime] = _wire.moment(6)
    """None: it does not expire."""
    last_used: Optional[datetime.datetime] = _wire.moment(7)
    """To about a minute. None: never."""
    made_with: str = _wire.text(8)
    """The id of the token with which it was made."""
    ended: str = _wire.text(12)
    """Why it is not good any more; "": it is."""


@dataclasses.dataclass(frozen=True)
class NewToken:
    """A token's text, which is not shown again, and what the coordinator keeps of it."""

    text: str = _wire.text(1)
    about: Token = _wire.message(2, Token, Token())


@dataclasses.dataclass(frozen=True)
class TokenList:
    """An answer."""

    tokens: List[Token] = _wire.messages(1, Token)
    next_page: str = _wire.text(2)


@dataclasses.dataclass(frozen=True)
class Revoked:
    """An answer."""

    ended: int = _wire.whole(1)
