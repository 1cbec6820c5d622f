"""Which gradients of a step travel. If ranks lack different gradients, a gradient of one variable must not be added to that
of another.

An empty tensor travels with the gradients. Its shape encodes which they are. If ranks differ, the shapes differ, and the
library refuses the call. If they agree, no extra call is needed.

Ranks may give one variable different names, and equal names to different ones: docs/decisions/0040-same-variable.md.
"""

import functools
import hashlib
import re
import warnings
import weakref
from typing import Any, Dict, FrozenSet, Hashable, List, NamedTuple, Optional, Sequence, Set, Tuple

from . import _epochs
from ._keras import owners
from ._library import lib
from .exceptions import InvalidRequest
from .objects import allgather_object
from .process_sets import ProcessSet, group_of

Names = Tuple[str, ...]
Places = Tuple[int, ...]
Mark = Tuple[int, int, int]

_NUMBERED = re.compile(r"(.*?)(?:_(\d+))?", re.DOTALL)
# So many lists of variables are remembered.
_MOST_LISTS = 256


def _distinct(names: Names) -> Names:
    """The names, with a number where one occurs again."""
    counts: Dict[str, int] = {}
    made = []
    for name in names:
        counts[name] = counts.get(name, 0) + 1
        made.append(name if counts[name] == 1 else f"{name}#{counts[name]}")
    return tuple(made)


@functools.lru_cache(maxsize=64)
def relative(names: Names) -> Names:
    """The names with numbers that begin with 0. Keras numbers layers in each process (dense_3); a rank that has made other
    models before has other numbers."""
    paths = [[_NUMBERED.fullmatch(part).groups() for part in name.split("/")] for name in names]  # type: ignore[union-attr]
    least: Dict[str, int] = {}
    for base, number in (part for path in paths for part in path):
        least[base] = min(least.get(base, int(number or 0)), int(number or 0))
    return tuple("/".join(f"{base}_{int(n or 0) - least[base]}" for base, n in path) for path in paths)


def name_of(variable: Any, place: int) -> str:
    """A name for a variable of Keras or TensorFlow, or by its place."""
    name: Optional[str] = getattr(variable, "path", None)
    if not isinstance(name, str):
        try:
            name = variable.name
        except (AttributeError, RuntimeError):  # RuntimeError: TensorFlow's eager tensors have none
            name = None
    return name.split(":")[0] if isinstance(name, str) and name else f"gradient {place}"


class _Identity(NamedTuple):
    """By which ranks compare their variables where the names differ."""

    keys: Names
    is_sure: bool
    """Whether equal keys on all ranks are of the same variables, so that no warning is needed."""
    total: int = 0
    """How many variables the model has whose places the keys are."""


class Variables:
    """The variables of a rank's gradients, in the order of the gradients. None in place of a variable: it is not known."""

    def __init__(
        self, variables: Sequence[Any], listed: Optional[Sequence[int]] = None, given: Sequence[int] = ()
    ) -> None:
        """`listed`: the places of those that the program has given to this step, besides the ones with gradients, which are at
        the places `given`; None: all."""
        self._variables = tuple(variables)
        self.names: Names = _distinct(tuple(name_of(each, place) for place, each in enumerate(variables)))
        self.listed: Sequence[int] = range(len(variables)) if listed is None else sorted({*listed, *given})

    def kind(self) -> Hashable:
        """The kind of step. Gradients that a rank lacks in a step of one kind are none in that of another."""
        return tuple(id(self._variables[place]) for place in self.listed)

    def identity(self) -> _Identity:
        """By the places in Keras's models; by the relative names where the variables are in none."""
        ids = tuple(map(id, self._variables))
        known = _identities.get(ids)
        if known is not None and all(ref() is each for ref, each in zip(known[0], self._variables)):
            return known[1]
        (keys, are_sure), count = owners.locate(self._variables)
        named = relative(self.names)
        made = _Identity(_distinct(tuple(key or name for key, name in zip(keys, named))), are_sure, count)
        try:
            refs = [_nothing if each is None else weakref.ref(each) for each in self._variables]
        except TypeError:
            return made
        if len(_identities) >= _MOST_LISTS:
            _identities.clear()
        _identities[ids] = refs, made
        return made


_identities: Dict[Tuple[int, ...], Tuple[List[Any], _Identity]] = {}


def _nothing() -> None:
    """In place of a reference to a variable that is not known."""


class Paths(Variables):
    """As Variables, of gradients whose names say which they are."""

    def __init__(self, names: Names, keys: Names) -> None:
        super().__init__(())
        self.names, self._keys = names, _distinct(keys)

    def kind(self) -> Hashable:
        return self.names

    def identity(self) -> _Identity:
        return _Identity(self._keys, True)


def _digest(value: Any, size: int) -> int:
    return int.from_bytes(hashlib.blake2b(repr(value).encode(), digest_size=size).digest(), "little")


def shape_of(keys: Sequence[str]) -> Mark:
    """The shape of an empty tensor that travels with the gradients of these variables: 0, their number, and a digest."""
    return 0, len(keys), _digest(list(keys), 4) >> 2


@functools.lru_cache(maxsize=256)
def mark(keys: Names, places: Places) -> Mark:
    """The shape of the empty tensor that travels with the gradients of the variables at these places among those of the
    keys."""
    return shape_of([keys[place] for place in places])


UNSURE = object()
"""As a fact of a rank: it may be that of any other rank."""
# Below all digests and their negatives.
_UNSURE_VALUE = -(1 << 62)


def compare(what: str, process_set: ProcessSet, *facts: Any) -> List[bool]:
    """Of each of the facts, whether all ranks of the set, which all call it at once, have the same, or are unsure."""
    values = []
    for one in facts:
        values += [_UNSURE_VALUE] * 2 if one is UNSURE else [_digest(one, 7), -_digest(one, 7)]
    found = _epochs.agree_on_most(f"{what}.agreement", values, group_of(process_set))
    return [most == _UNSURE_VALUE or most == -least for most, least in zip(found[::2], found[1::2])]


def is_disagreement(error: BaseException) -> bool:
    """Whether it is the library's error that all ranks get when two of them disagree."""
    return re.search(r"rank \d+ .*rank \d+ ", str(error), re.DOTALL) is not None


class Plan(NamedTuple):
    """Which gradients a rank sends, by their places."""

    missing: Dict[int, str]
    """Those that are zeros, and their kinds: this rank lacks them, and another one has them."""
    places: List[int]
    mark: Mark


class _Facts(NamedTuple):
    """The gradients of one rank."""

    rank: int
    names: Names
    keys: Names
    is_sure: bool
    total: int
    kinds: Dict[int, str]
    """Of each gradient, by its variable's place."""
    without: Tuple[int, ...]
    """The places of variables for which the rank has no zeros."""

    def given(self) -> Dict[str, str]:
        """The kinds of the gradients, by the variables' keys."""
        return {self.keys[place]: kind for place, kind in self.kinds.items()}

    def places(self) -> Names:
        """The keys of the gradients."""
        return tuple(self.keys[place] for place in sorted(self.kinds))

    def able(self) -> Set[str]:
        """The keys of the variables for which it has a gradient, or can make one."""
        return set(self.keys) - {self.keys[place] for place in self.without}

    def name_of(self, key: str) -> str:
        return self.names[self.keys.index(key)]


# Of lists of variables, by their names and the process set, those that other ranks name otherwise.
_named_otherwise: Set[Tuple[Optional[int], Names]] = set()


class _Agreed:
    """The ranks' answers to each other."""

    def __init__(self) -> None:
        self.size = 0
        """How many ranks have compared their gradients; 0: none have."""
        self.is_partial = False
        """Whether some rank had joined when the others compared them first, and so has not taken part."""
        self.filled: Dict[Hashable, Dict[str, str]] = {}
        """Of each kind of step, the gradients that some rank has."""
        self.named_alike: Dict[Hashable, bool] = {}
        """Of kinds of steps, whether equal names are the same variables."""
        self.are_all_named_alike: Optional[bool] = None
        """The same of all variables, where all ranks have variables of the same names."""
        self.answered: Optional[Hashable] = None
        """The kind of step for which the ranks have compared their gradients just now."""

    def add(self, variables: Variables, filled: Dict[str, str], are_named_alike: bool, have_same_names: bool) -> None:
        """Of the step's kind. `have_same_names`: all ranks have variables of the same names, with a gradient or without."""
        if len(self.filled) >= _MOST_LISTS:
            self.filled.clear()
        if have_same_names or len(self.named_alike) >= _MOST_LISTS:
            self.named_alike.clear()
        if have_same_names:
            self.are_all_named_alike = are_named_alike
        self.filled[variables.kind()] = filled
        self.named_alike[variables.kind()] = are_named_alike
        self.answered = variables.kind()
        self.size = lib.farandole_size()


class Presence:
    """Which gradients travel, of one optimizer or tape."""

    def __init__(self, process_set: ProcessSet) -> None:
        self._process_set = process_set
        self._now = _Agreed()
        # By this functions of the program were compiled, which may outlive a shutdown().
        self._compiled = self._now
        # Those with steps that fit() has compiled by what is agreed now.
        self._models: "weakref.WeakSet[Any]" = weakref.WeakSet()
        _epochs.follow(self)

    @property
    def is_known(self) -> bool:
        """Whether the ranks have compared their gradients since init()."""
        return self._now.size > 0

    def leave_epoch(self) -> None:
        """As Follower's."""

    def enter_epoch(self) -> None:
        """The ranks are others, which know nothing of what these have agreed: models compile their steps anew, and ask. After
        shutdown() and init() as many ranks still have compiled functions of the program, and a rank that compiles one again
        does so alone: it asks nobody, and marks as they do."""
        if self._now.size:
            self._compile_anew()
        self._now = _Agreed()
        if _epochs.is_elastic() or self._compiled.is_partial or self._compiled.size != lib.farandole_size():
            self._compiled = self._now
        _named_otherwise.clear()

    def all_have_joined(self) -> None:
        """As Follower's. Where a rank had joined before the first step, it does not know what the others have agreed: all ask
        in the next step, and compile it anew, as compiled ones ask nobody."""
        before = self._now
        if before.is_partial:
            self._compile_anew()
            self._now = _Agreed()
            if self._compiled is before:
                self._compiled = self._now

    def _compile_anew(self) -> None:
        """Has the models compile their steps when these are run next, also where fit() has called what ends here."""
        for model in list(self._models):
            if model.train_function is not None:
                model.make_train_function(force=True)
        self._models.clear()

    def plan(
        self,
        variables: Variables,
        given: Sequence[int],
        can_ask: bool,
        without: Sequence[int] = (),
        compiled_for: Optional[Any] = None,
    ) -> Plan:
        """For a rank that has the gradients at the places `given`, and cannot make zeros for those at the places `without`.
        `can_ask`: it asks if the call is refused; else ranks that name the same variables otherwise must have the same keys
        without it. `compiled_for`: as of ask_once."""
        agreed = self._compiled if not can_ask and compiled_for is None else self._now
        keys = self._keys(agreed, variables, can_ask)
        filled = agreed.filled.get(variables.kind(), {})
        if can_ask and not given and agreed.answered != variables.kind():
            # Any rank may have none in any step: what others had in one says nothing of the next one.
            filled = {}
        agreed.answered = None
        missing = {place: filled[key] for place, key in enumerate(keys) if key in filled}
        for place in (*given, *without):
            missing.pop(place, None)
        places = sorted([*given, *missing])
        return Plan(missing, places, mark(keys, tuple(places)))

    def _keys(self, agreed: _Agreed, variables: Variables, can_ask: bool) -> Names:
        is_named = agreed.named_alike.get(variables.kind(), agreed.are_all_named_alike)
        if is_named is None:
            is_named = can_ask and (self._process_set.process_set_id, variables.names) not in _named_otherwise
        return variables.names if is_named else variables.identity().keys

    def ask_once(
        self, what: str, variables: Variables, kinds: Dict[int, str], compiled_for: Optional[Any] = None
    ) -> None:
        """As ask, in the first step. `compiled_for`: the model whose fit() compiles it; None: it is not compiled. In an elastic
        job, where a worker that comes has a first step of its own, the ranks ask only where a call was refused."""
        if not self._now.size and not _epochs.is_elastic():
            self.ask(what, variables, kinds)
            self._now.is_partial = not _epochs.all_are_present(f"{what}.present", group_of(self._process_set))
        if compiled_for is not None:
            self._models.add(compiled_for)

    def ask(
        self,
        what: str,
        variables: Variables,
        kinds: Dict[int, str],
        without: Sequence[int] = (),
        refused: Optional[Mark] = None,
    ) -> bool:
        """Compares the gradients of all ranks of the set, which all call it at once. Returns whether the call that was refused
        may succeed now. `what`: the optimizer; `kinds`: the places of the gradients that this rank has, with "" for a
        dense one and else the element type of its indices; `without`: those of which it cannot make zeros; `refused`: the
        mark of that call.

        ValueError, on all ranks with the same words: a rank has a gradient of a variable that another one does not have, or
        variables of one name lie at other places of their models.
        """
        names = [variables.names[place] for place in sorted(kinds)]
        facts = _Facts(lib.farandole_rank(), variables.names, *variables.identity(), kinds, tuple(without))
        where = (facts.places(), facts.total) if facts.is_sure else (UNSURE, UNSURE)
        are_alike = compare(what, self._process_set, names, refused, *where, variables.names)
        are_named_alike, are_marked_alike, are_placed_alike, are_counted_alike, have_same_names = are_alike
        if refused is not None and are_marked_alike:
            return False
        filled: Dict[str, str] = {}
        if not are_named_alike or (are_counted_alike and not are_placed_alike):
            every = allgather_object(facts, f"{what}.facts", self._process_set)
            if are_named_alike:
                raise _other_places(every)
            if have_same_names and not _lie_otherwise(every):
                are_named_alike, every = True, [facts._replace(keys=facts.names) for facts in every]
            if any(set(other.given()) != set(every[0].given()) for other in every):
                filled = _union(every)
            elif not are_named_alike:
                _warn_of_names(every)
        self._now.add(variables, filled, are_named_alike, have_same_names)
        self._remember(variables.names, are_named_alike)
        return True

    def _remember(self, names: Names, are_named_alike: bool) -> None:
        known = (self._process_set.process_set_id, names)
        if are_named_alike:
            _named_otherwise.discard(known)
        else:
            if len(_named_otherwise) >= _MOST_LISTS:
                _named_otherwise.clear()
            _named_otherwise.add(known)


def _union(every: List[_Facts]) -> Dict[str, str]:
    """The kinds of the gradients that any rank has."""
    union: Dict[str, str] = {}
    # Of thousands of ranks most are alike.
    kinds: Dict[Tuple[FrozenSet[str], FrozenSet[str]], _Facts] = {}
    for facts in every:
        kinds.setdefault((frozenset(facts.given()), frozenset(facts.able())), facts)
    for (given, _), facts in kinds.items():
        for (_, able), other in kinds.items():
            if not given <= able:
                lacking = [facts.name_of(key) for key in facts.given() if key not in able]
                only = [name for name in lacking if name not in other.names]
                raise InvalidRequest(
                    f"{[*only, *lacking][0]}: rank {facts.rank} has a gradient of this variable, and rank {other.rank} has none; "
                    "train and freeze the same variables on all ranks"
                )
    for facts in every:
        for key, kind in facts.given().items():
            union.setdefault(key, kind)
    return union


def _lie_otherwise(every: List[_Facts]) -> bool:
    """Whether variables of the same names lie at other places in models of one size. Models of other sizes may have the same
    layers after others."""
    sure = [facts for facts in every if facts.is_sure]
    return len({facts.keys for facts in sure}) > 1 and len({facts.total for facts in sure}) == 1


def _other_places(every: List[_Facts]) -> InvalidRequest:
    """The gradients are of variables with equal names, and the variables lie at other places of their models."""
    sure = [facts for facts in every if facts.is_sure]
    other = next(facts for facts in sure if facts.places() != sure[0].places())
    one, two = next(pair for pair in zip(sure[0].places(), other.places()) if pair[0] != pair[1])
    return InvalidRequest(
        f"{sure[0].name_of(one)}: on rank {sure[0].rank} this name is that of variable {_number(one)} of the model, and on "
        f"rank {other.rank} that of variable {_number(two)}; train and freeze the same variables on all ranks"
    )


def _number(key: str) -> str:
    """The place of a variable in its model, by its key, as owners.choose makes it."""
    return key.split(":")[-1]


def _warn_of_names(every: List[_Facts]) -> None:
    """The gradients have equal keys, and their variables other names. The names of a model around the layers do not count."""
    first = every[0]
    for other in every[1:] if not all(facts.is_sure for facts in every) else ():
        for key in first.given():
            one, two = first.name_of(key), other.name_of(key)
            if one.split("/")[-2:] != two.split("/")[-2:]:
                warnings.warn(
                    f"{one}: rank {other.rank} has {two} in the place that this variable has on rank {first.rank}, and their "
                    "gradients are reduced together; if they are not the same variable, give the layers names",
                    stacklevel=2,
                )
                return
