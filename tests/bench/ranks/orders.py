"""A rank's side of the suite: it does what the driver orders over a Unix socket, one JSON object a line each way.

While another contender is measured, a rank waits for its next order in the kernel and costs nothing. Orders:

    {"do": "collective", "kind": "one" | "many" | "flat", "dtype": "f32", "count": N, "tensors": T, "steps": S, "barrier": B}
    {"do": "train", "model": NAME, "how": WAY, "steps": S}
    {"do": "burst", "calls": N, "pause": SECONDS, "bursts": N}
    {"do": "idle", "seconds": S}
    {"do": "late", "seconds": S}

The answer is {"seconds": [of each step], "wrong": elements} or {"seconds": [...], "digest": of the parameters} or
{"seconds": [median of each burst's calls]} or {"cpu": share of one core}. A contender is an object with `name`, `rank`, `size`, `barrier()`, `exercise(order)`, and
where it trains `training(model, how)`.
"""

import json
import os
import select
import socket
import statistics
import sys
import time
from typing import Any, Dict, List

Order = Dict[str, Any]
Answer = Dict[str, Any]


class Rank:
    """One rank of one contender."""

    def __init__(self, contender: Any, path: str) -> None:
        self._contender = contender
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)
        self._exercise: Any = None
        self._exercise_of: Order = {}
        self._turn = 0

    def serve(self) -> None:
        """Until the driver closes the connection."""
        self._tell({"contender": self._contender.name, "rank": self._contender.rank, "pid": os.getpid()})
        with self._socket.makefile("r", encoding="ascii") as lines:
            for line in lines:
                order = json.loads(line)
                self._tell(getattr(self, f"_{order['do']}")(order))

    def _tell(self, message: Answer) -> None:
        self._socket.sendall((json.dumps(message) + "\n").encode("ascii"))

    def _collective(self, order: Order) -> Answer:
        exercise = self._prepare({name: order[name] for name in ("do", "kind", "dtype", "count", "tensors")})
        seconds: List[float] = []
        for _ in range(order["steps"]):
            self._turn += 1
            exercise.rewrite(self._turn)
            if order["barrier"]:
                self._contender.barrier()
            start = time.perf_counter()
            exercise.step()
            seconds.append(time.perf_counter() - start)
        return {"seconds": seconds, "wrong": int(exercise.count_wrong(self._turn))}

    def _prepare(self, key: Order) -> Any:
        if key != self._exercise_of:
            # The old buffers go first: two sets of 256 MiB may not fit.
            self._exercise = None
            self._exercise = self._contender.exercise(key)
            self._exercise_of, self._turn = key, 0
        return self._exercise

    def _train(self, order: Order) -> Answer:
        key = {name: order[name] for name in ("do", "model", "how")}
        if key != self._exercise_of:
            self._exercise = None
            self._exercise = self._contender.training(order["model"], order["how"])
            self._exercise_of = key
        seconds: List[float] = []
        for _ in range(order["steps"]):
            start = time.perf_counter()
            self._exercise.step()
            seconds.append(time.perf_counter() - start)
        return {"seconds": seconds, "digest": self._exercise.digest()}

    def _burst(self, order: Order) -> Answer:
        """Small allreduces, one after the other, after other work: by turns the rank has computed, and has slept."""
        exercise = self._prepare({"do": "collective", "kind": "one", "dtype": "f32", "count": 1, "tensors": 1})
        medians: List[float] = []
        for burst in range(order["bursts"]):
            exercise.clear()
            end = time.perf_counter() + order["pause"]
            if burst % 2 == 0:
                select.select([], [], [], order["pause"])
            while time.perf_counter() < end:
                pass
            seconds: List[float] = []
            for _ in range(order["calls"]):
                start = time.perf_counter()
                exercise.step()
                seconds.append(time.perf_counter() - start)
            medians.append(statistics.median(seconds))
        return {"seconds": medians}

    def _idle(self, order: Order) -> Answer:
        """The cost of the library's threads between steps, while the program itself does nothing."""
        wall, used = time.perf_counter(), time.process_time()
        select.select([self._socket], [], [], order["seconds"])
        return {"cpu": (time.process_time() - used) / (time.perf_counter() - wall)}

    def _late(self, order: Order) -> Answer:
        """The cost of a rank that waits in a collective for rank 0, which comes later by so many seconds."""
        exercise = self._prepare({"do": "collective", "kind": "one", "dtype": "f32", "count": 1, "tensors": 1})
        self._contender.barrier()
        exercise.rewrite(0)
        wall, used = time.perf_counter(), time.process_time()
        if self._contender.rank == 0:
            select.select([self._socket], [], [], order["seconds"])
        exercise.step()
        return {"cpu": (time.process_time() - used) / (time.perf_counter() - wall)}


def serve(contender: Any) -> None:
    """Runs a contender's program: the driver's socket is its last argument."""
    Rank(contender, sys.argv[-1]).serve()


class Buffers:
    """The tensors of a collective, written and checked alike for all contenders.

    `arrays` may be of torch or NumPy: only `fill` differs. The sums are small whole numbers, exact in float16.
    """

    def __init__(self, arrays: List[Any], rank: int, size: int) -> None:
        self.arrays = arrays
        self._rank = rank
        self._size = size

    def rewrite(self, turn: int) -> None:
        """Each rank's contribution stands where the last result stood."""
        self._fill(self._rank + 1 + turn % 4)

    def clear(self) -> None:
        """Zeros, whose sums stay zero."""
        self._fill(0)

    def _fill(self, value: int) -> None:
        for array in self.arrays:
            fill = getattr(array, "fill_", None) or array.fill
            fill(value)

    def count_wrong(self, turn: int) -> int:
        """Elements that are not the sum over the ranks."""
        expected = self._size * (self._size + 1) // 2 + self._size * (turn % 4)
        return sum(int((array != expected).sum()) for array in self.arrays)
