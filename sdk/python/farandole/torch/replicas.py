"""Finds ranks whose copy of the model is no longer that of the others."""

from collections import Counter
from typing import Any, Dict, Iterable, List, NoReturn, Tuple, Union

import torch

from .. import _epochs
from ..process_sets import ProcessSet, global_process_set
from ..reduce_ops import Max
from .differentiable import allgather, allreduce

Named = List[Tuple[str, torch.Tensor]]
# Words of 8 bytes that are hashed at a time. The CPU keeps so few in its cache; other devices want few and large calls, and
# take some 32 MiB of working memory for them.
_WORDS_OF_CPU = 1 << 15
_WORDS_OF_DEVICE = 1 << 20
# Odd numbers below 2^63: products with them, of 64 bits, are the same for no two words.
_STEP = 2685821657736338717
_MIX = 1181783497276652981
_AGAIN = 7809847782465536323
_MASK = (1 << 64) - 1


class ReplicasDiffer(RuntimeError):
    """A parameter is not the same on all ranks. All ranks get this error."""

    def __init__(self, sentence: str, parameter: str, ranks: List[int]) -> None:
        """`parameter`: the first one that differs; `ranks`: those whose copy is not that of most."""
        super().__init__(sentence)
        self.parameter = parameter
        self.ranks = ranks


def _signed(number: int) -> int:
    """The number of 64 bits with a sign that wraps round to the same."""
    number &= _MASK
    return number - ((number >> 63) << 64)


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor's bits in a row."""
    flat = tensor.detach().resolve_conj().resolve_neg()
    flat = (torch.view_as_real(flat) if flat.is_complex() else flat).contiguous().view(-1)
    return flat.to(torch.uint8) if flat.dtype is torch.bool else flat.view(torch.uint8)


def _words(part: torch.Tensor) -> torch.Tensor:
    """Bytes as words of 8, with zeros behind the last."""
    missing = -part.numel() % 8
    if missing:
        part = torch.nn.functional.pad(part, (0, missing))
    elif part.storage_offset() % 8:
        part = part.clone()
    return part.view(torch.int64)


def _hash(tensor: torch.Tensor, keys: Dict[torch.device, torch.Tensor]) -> torch.Tensor:
    """A hash of 64 bits of the tensor's bits, computed where it is: the sum over its words, each of which is mixed with its
    place first. Arithmetic wraps round."""
    row = _bytes(tensor)
    if row.device not in keys:
        count = _WORDS_OF_CPU if row.device.type == "cpu" else _WORDS_OF_DEVICE
        keys[row.device] = torch.arange(count, device=row.device) * _STEP
    own = keys[row.device]
    total = torch.full((), row.numel(), dtype=torch.int64, device=row.device)
    for begin in range(0, row.numel(), 8 * own.numel()):
        words = _words(row[begin : begin + 8 * own.numel()])
        # Each step gives two words two results, so that one that differs changes the sum. Sums of mere products would be
        # those of other places as well, and of an even number of words whose highest bit differs.
        mixed = words + own[: words.numel()]
        mixed += _signed(begin // 8 * _STEP)
        mixed *= _MIX
        mixed ^= (mixed >> 32).bitwise_and_(_MASK >> 32)
        mixed *= _AGAIN
        mixed ^= (mixed >> 29).bitwise_and_(_MASK >> 29)
        total += mixed.sum()
    return total


def _named(parameters: Union[Dict[str, Any], Iterable[Any]]) -> Named:
    if isinstance(parameters, (str, torch.Tensor)) or not hasattr(parameters, "__iter__"):
        raise ValueError(f"a replica check takes model.named_parameters(), not {parameters!r}")
    named = list(parameters.items()) if isinstance(parameters, dict) else list(parameters)
    for entry in named:
        if not (isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[1], torch.Tensor)):
            raise ValueError(
                f"a replica check takes pairs of a name and a tensor, as of named_parameters(), not {entry!r}"
            )
        name, tensor = entry
        if tensor.is_meta or tensor.is_nested or tensor.layout is not torch.strided or tensor.is_quantized:
            kind = f"{'quantized ' if tensor.is_quantized else ''}{tensor.layout}, on {tensor.device}"
            raise ValueError(
                f"a replica check takes dense tensors with elements; {name} is none ({kind}): leave it out"
            )
    return named


def check_replicas(
    parameters: Union[Dict[str, Any], Iterable[Any]], process_set: ProcessSet = global_process_set
) -> None:
    """Compares the bits of tensors over all ranks of the process set, which make this call at the same point.

    `parameters`: model.named_parameters(), or a dictionary of tensors; the same names on all ranks. Hashes are compared:
    16 bytes travel where all is well, 8 for each tensor where not. Buffers that ranks have of their own, as the running
    mean of BatchNorm, differ rightly: leave them out. ReplicasDiffer, on all ranks: names the first tensor that differs,
    and the ranks. ValueError: something else was given, or the ranks have different numbers of tensors.
    """
    _compare(_named(parameters), process_set, "")


def _compare(named: Named, process_set: ProcessSet, when: str) -> None:
    keys: Dict[torch.device, torch.Tensor] = {}
    hashes = [int(each) for each in [_hash(tensor, keys) for _, tensor in named]]
    total = len(named)
    for each in hashes:
        total = (total * _MIX + each) & _MASK
    # Of signed numbers the complement of the least is the greatest of the complements.
    total = _signed(total)
    extremes = allreduce(torch.tensor([total, ~total]), op=Max, name="replicas", process_set=process_set).tolist()
    if extremes[0] == ~extremes[1]:
        return
    everyone = allgather(torch.tensor([hashes]), name="replicas.hashes", process_set=process_set).tolist()
    for index, (name, _) in enumerate(named):
        column = [row[index] for row in everyone]
        if len(set(column)) > 1:
            others = sum(len({row[at] for row in everyone}) > 1 for at in range(index + 1, len(named)))
            _refuse(name, column, process_set, others, when)
    raise AssertionError("hashes of all tensors differ, and those of none do")


def _refuse(name: str, column: List[int], process_set: ProcessSet, others: int, when: str) -> NoReturn:
    ranks = process_set.ranks if process_set.ranks else list(range(len(column)))
    (most, count), *_ = Counter(column).most_common(1)
    outliers = [rank for rank, each in zip(ranks, column) if each != most]
    more = f"; so do {others} further ones" if others else ""
    if 2 * count > len(column):
        noun = "rank" if len(outliers) == 1 else "ranks"
        sentence = (
            f"parameter '{name}' of {noun} {', '.join(map(str, outliers))} differs from that of the others{when}{more}"
        )
    else:
        sentence = f"parameter '{name}' differs between the ranks, and no copy is that of most{when}{more}"
        outliers = list(ranks)
    raise ReplicasDiffer(sentence, name, outliers)


class ReplicaCheck:
    """Compares parameters over the ranks every so many steps:

        replicas = hvd.ReplicaCheck(model.named_parameters(), every=500)
        ...
        optimizer.step()
        replicas.step()

    All ranks make it with the same names and `every`, and call step() equally often. In an elastic job steps count from
    the beginning of an epoch.
    """

    def __init__(
        self,
        parameters: Union[Dict[str, Any], Iterable[Any]],
        every: int,
        process_set: ProcessSet = global_process_set,
    ) -> None:
        """As check_replicas(). ValueError: `every` is no whole number of at least 1."""
        if not hasattr(every, "__index__") or every < 1:
            raise ValueError(f"every is a whole number of steps, at least 1, not {every!r}")
        self._parameters = _named(parameters)
        self._every = every.__index__()
        self._process_set = process_set
        self._steps = 0
        _epochs.follow(self)

    def step(self) -> None:
        """A step is done. As check_replicas() in each step whose number `every` divides."""
        self._steps += 1
        if self._steps % self._every == 0:
            _compare(self._parameters, self._process_set, f" after {self._steps} steps")

    def leave_epoch(self) -> None:
        """Newcomers have made no steps."""
        self._steps = 0

    def enter_epoch(self) -> None:
        """Nothing to make anew."""

    def all_have_joined(self) -> None:
        """Ranks had different numbers of steps."""
        self._steps = 0
