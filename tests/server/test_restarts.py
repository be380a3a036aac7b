"""When a worker is started again."""

from __future__ import annotations

import pytest

from server.engine.base import StartFailed
from server.engine.restarts import HEALTHY_S, Life, Restarts
from server.sections import EngineSettings

SETTINGS = EngineSettings(restart_delay_s=1, max_restart_delay_s=20, max_start_failures=3)
CRASHED = "was killed by SIGSEGV"

AT_ONCE = Life(CRASHED, 0.1)
WORKED = Life(CRASHED, 0.1, worked=True)
HEALTHY = Life(CRASHED, HEALTHY_S)
NEVER_READY = Life(CRASHED, None)


def test_an_end_has_a_word() -> None:
    """For the metrics: who ended it, and that it never was ready before all else."""
    ends = [Life(CRASHED, 5), Life("stopped answering", 5, killed="silent"), NEVER_READY]
    assert [life.reason for life in ends] == ["crashed", "silent", "start_failed"]
    late = Life("was not ready within 1 s", None, killed="start_failed")
    assert late.reason == "start_failed"


def test_a_worker_that_works_is_started_again_at_once() -> None:
    """A crash after a finished job, or after a while without any: always the shortest pause."""
    restarts = Restarts(SETTINGS)
    assert [restarts.pause(life) for life in (WORKED, WORKED, HEALTHY, WORKED)] == [1, 1, 1, 1]


def test_a_worker_that_dies_as_soon_as_it_is_ready_is_given_longer_and_longer_pauses() -> None:
    """Up to a bound, and for ever; one finished job puts it right."""
    restarts = Restarts(SETTINGS)
    assert [restarts.pause(AT_ONCE) for _ in range(7)] == [1, 2, 4, 8, 16, 20, 20]
    assert [restarts.pause(AT_ONCE) for _ in range(2000)][-1] == 20
    assert [restarts.pause(life) for life in (WORKED, AT_ONCE, AT_ONCE)] == [1, 1, 2]


def test_starts_that_fail_are_tried_a_few_times() -> None:
    """The count begins anew with each start that succeeds."""
    restarts = Restarts(SETTINGS)
    lives = [NEVER_READY, NEVER_READY, AT_ONCE, NEVER_READY, NEVER_READY]
    assert None not in [restarts.pause(life) for life in lives]
    assert restarts.pause(NEVER_READY) is None
    assert "3 starts failed in a row" in restarts.verdict(NEVER_READY)
    assert "SIGSEGV" in restarts.verdict(NEVER_READY)


def test_what_cannot_be_served_is_not_tried_again() -> None:
    """A checkpoint that is not there, at the first start; the reason is the worker's own."""
    refused = Life("ended with status 1", None, refusal=StartFailed("model tiny: no such folder"))
    restarts = Restarts(SETTINGS)
    assert restarts.pause(refused) is None
    assert restarts.verdict(refused) == "model tiny: no such folder"


@pytest.mark.parametrize("before", [[], [HEALTHY]])
def test_what_may_pass_is_tried_again(before: list[Life]) -> None:
    """A full device always; and any refusal of a worker that has served what it refuses now."""
    refusal = StartFailed("cannot read the weights", transient=not before)
    restarts = Restarts(SETTINGS)
    for life in before:
        restarts.pause(life)
    refused = Life("ended with status 1", None, refusal=refusal)
    pauses = [restarts.pause(refused) for _ in range(3)]
    assert pauses == [1, 2, None]
