"""Sections of the program, as far as a program sees them; tests/integration/test_diagnosis.py has their times."""

import threading
from typing import Iterator, List

import farandole
import farandole.numpy
import farandole.torch as hvd
import torch
from farandole._library import lib
from harness import Checks

check = Checks()
# Of a process, at a time.
MOST_OPEN = 64


def open_sections() -> int:
    """How many are open, found by opening more until the library counts none."""
    opened: List[int] = []
    while (number := lib.farandole_section_begin(b"probe")) > 0:
        opened.append(number)
    for number in opened:
        lib.farandole_section_end(number)
    return MOST_OPEN - len(opened)


@check
def every_module_has_it() -> None:
    assert farandole.section is farandole.numpy.section is hvd.section


@check
def a_section_ends_in_any_outcome() -> None:
    with hvd.section("data"):
        assert open_sections() == 1
        with hvd.section("decode"):
            assert open_sections() == 2
    try:
        with hvd.section("data"):
            raise KeyError("the program's own")
    except KeyError:
        pass
    assert open_sections() == 0


@check
def a_function_that_is_one_may_call_itself() -> None:
    @hvd.section("forward")
    def depth(left: int) -> int:
        assert open_sections() == 4 - left
        return 0 if left == 0 else 1 + depth(left - 1)

    assert depth(3) == 3 and open_sections() == 0


@check
def each_fetch_is_within_the_section() -> None:
    def items() -> Iterator[int]:
        for item in range(3):
            assert open_sections() == 1
            yield item

    taken = []
    for item in hvd.section("data").each(items()):
        assert open_sections() == 0
        taken.append(item)
    assert taken == [0, 1, 2] and open_sections() == 0


@check
def another_thread_may_end_it() -> None:
    section = hvd.section("data")
    section.__enter__()
    thread = threading.Thread(target=section.__exit__)
    thread.start()
    thread.join()
    assert open_sections() == 0


@check
def beyond_64_open_sections_nothing_counts() -> None:
    sections = [hvd.section("deep") for _ in range(MOST_OPEN + 6)]
    for section in sections:
        section.__enter__()
    assert open_sections() == MOST_OPEN
    for section in sections:
        section.__exit__()
    assert open_sections() == 0


@check
def the_optimizer_leaves_none_open() -> None:
    model = torch.nn.Linear(3, 2)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(4, 3)).sum().backward()
        assert open_sections() == 0, "backward"
        optimizer.step()
        assert open_sections() == 0, "step"


@check
def a_backward_pass_that_fails_leaves_none_open_after_the_step() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())

    def fail(_gradient: torch.Tensor) -> None:
        raise KeyError("the program's own")

    hidden = model[0](torch.ones(4, 3))
    hidden.register_hook(fail)
    try:
        model[1](hidden).sum().backward()
    except KeyError:
        pass
    optimizer.step()
    assert open_sections() == 0
