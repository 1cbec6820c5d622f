"""The names of an optimizer's parameters, by which their gradients travel."""

from typing import Any, Dict, Iterable, List, Sequence, Tuple

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from ..exceptions import InvalidRequest

Named = List[Tuple[str, torch.Tensor]]

_UNNAMED = "noname."


def unnamed(group: int, position: int) -> str:
    """The name of a parameter without one, by its place in the optimizer's groups."""
    return f"{_UNNAMED}{group}.{position}"


class SpareNames:
    """The names that a program has given to parameters, of which an optimizer may get some later."""

    def __init__(self, named: Iterable[Tuple[str, torch.Tensor]] = ()) -> None:
        self._given = WeakTensorKeyDictionary()
        for name, parameter in named:
            if isinstance(parameter, torch.Tensor):
                self._given.setdefault(parameter, name)

    def name_unknown(self, groups: Sequence[Dict[str, Any]], known: Dict[torch.Tensor, str]) -> Named:
        """The parameters of an optimizer's groups that are not known, with their names. Those without one have names by
        their places there, behind the name of the optimizer's first parameter: two optimizers have different ones."""
        taken = set(known.values())
        first = next(iter(known.values()), _UNNAMED)
        begin = "" if first.startswith(_UNNAMED) else f"{first}."
        named = []
        for index, group in enumerate(groups):
            for position, parameter in enumerate(group["params"]):
                if parameter not in known:
                    name = self._given.get(parameter, f"{begin}{unnamed(index, position)}")
                    while name in taken:
                        name += "+"
                    taken.add(name)
                    named.append((name, parameter))
        return named


def explained(error: Exception) -> Exception:
    """The error, and what it mostly means."""
    begins = (f"allreduce.{_UNNAMED}", f"allreduce.group.{_UNNAMED}")
    if isinstance(error, InvalidRequest) and str(error).startswith(begins):
        return InvalidRequest(
            f"{error} (optimizers that are wrapped without named_parameters give their parameters the same names; if there "
            "are several, pass named_parameters with names of their own)"
        )
    return error
