"""Jobs with more tensor names than an epoch knows at a time."""

from typing import Callable

import pytest
from programs_run import Program

SECONDS = 240


@pytest.mark.parametrize(("parameters", "slots"), [(20_000, ""), (3_000, "1024")])
def test_a_model_with_more_names_than_slots_trains_and_resumes(
    job: Callable[..., Program], parameters: int, slots: str
) -> None:
    settings = {"FARANDOLE_MAX_SLOTS": slots} if slots else {}
    run = job(2, "many_names", parameters, **settings)
    run.require_end(0, SECONDS)
    for rank in range(2):
        run.expect(rf"\[{rank}\] resumed")
