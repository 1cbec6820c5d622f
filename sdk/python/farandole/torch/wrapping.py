"""Optimizers that are made of others: they refuse to be copied, and share the groups and the state with the other one."""

import contextlib
from typing import Any, Dict, Iterable, Iterator, NoReturn

import torch


@contextlib.contextmanager
def keeping_groups(optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """Within it, the optimizer may load a state: its groups and its state get the new content, and stay the objects that
    schedulers, callbacks and an optimizer that was wrapped have. torch makes new ones."""
    if isinstance(optimizer, SharesGroups):
        optimizer.share_groups()
    groups, states = optimizer.param_groups, optimizer.state
    yield
    loaded_groups, loaded_states = [dict(group) for group in optimizer.param_groups], dict(optimizer.state)
    for kept, loaded in zip([*groups, states], [*loaded_groups, loaded_states]):
        kept.clear()
        kept.update(loaded)
    with contextlib.suppress(AttributeError):  # of one that shows those of another
        optimizer.param_groups, optimizer.state = groups, states


class NotCopied:
    """Refuses to be copied or pickled."""

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        del protocol
        raise TypeError(
            "a DistributedOptimizer cannot be copied or pickled, as it reduces the gradients of this process's model: copy "
            "the model, wrap an optimizer of the copy, and give that the state_dict() of this one"
        )


class SharesGroups(NotCopied):
    """Goes before the class of the optimizer that was wrapped. Both have one list of groups and one state, whichever of
    them loads another: schedulers and callbacks that were made before keep the wrapped one."""

    _wrapped: torch.optim.Optimizer
    _common: Dict[str, Any]
    """What both had when they were compared last, by the names of attributes."""

    def share_with(self, optimizer: torch.optim.Optimizer) -> None:
        """To be called once. The groups and the state are this one's already."""
        self._wrapped = optimizer
        self._common = {name: getattr(optimizer, name) for name in _SHARED}

    def load_state_dict(self, *arguments: Any, **options: Any) -> Any:
        """As the optimizer's."""
        with keeping_groups(self):  # type: ignore[arg-type]
            return super().load_state_dict(*arguments, **options)  # type: ignore[misc]

    def forget(self, parameters: Iterable[torch.Tensor]) -> None:
        """These are in none of the groups any more, on any rank."""

    def zero_grad(self, *arguments: Any, **options: Any) -> None:
        """As the optimizer's."""
        self.share_groups()
        super().zero_grad(*arguments, **options)  # type: ignore[misc]

    def state_dict(self, *arguments: Any, **options: Any) -> Any:
        """As the optimizer's."""
        self.share_groups()
        return super().state_dict(*arguments, **options)  # type: ignore[misc]

    def share_groups(self) -> None:
        """Gives groups and state that one of the two has loaded, or was given, to the other."""
        wrapped, common = self._wrapped, self._common
        for name in _SHARED:
            mine, theirs = getattr(self, name), getattr(wrapped, name)
            if mine is not theirs:
                common[name] = theirs if mine is common[name] else mine
                with contextlib.suppress(AttributeError):  # of one that shows those of another
                    setattr(self, name, common[name])
                    setattr(wrapped, name, common[name])


_SHARED = ("param_groups", "state")
