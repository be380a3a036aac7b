from __future__ import annotations

import itertools

from pipelines.base import Stage
from server.engine.base import Progress
from server.progress import JobProgress


def told(*events: tuple[Stage, float]) -> list[int]:
    """The percentages after each event."""
    progress = JobProgress()
    seen = []
    for stage, cost in events:
        progress.note(Progress("job", stage, 1, 1, cost))
        seen.append(progress.percent)
    return seen


def test_percent_grows_through_the_stages() -> None:
    """From the prompt to the last chunk, never past 99: the last percent is the finished file."""
    seen = told(
        ("prompt", 0.0), ("prompt", 1.0), ("denoise", 0.5), ("denoise", 1.0), ("decode", 0.5), ("decode", 1.0)
    )
    assert seen == sorted(seen)
    assert (seen[0], seen[-1]) == (0, 99)


def test_percent_never_falls() -> None:
    """Also where several outputs take turns, or a stage begins anew."""
    stages: list[tuple[Stage, float]] = [
        ("denoise", 0.5),
        ("decode", 0.5),
        ("denoise", 0.2),
        ("denoise", 1.0),
        ("decode", 1.0),
    ]
    seen = told(*stages)
    assert all(before <= after for before, after in itertools.pairwise(seen))


def test_a_step_is_worth_its_cost() -> None:
    """Half of the denoising's cost is half of its share, whatever the number of steps."""
    (begun, half) = told(("denoise", 0.0), ("denoise", 0.5))
    assert half - begun == 37  # of 75
