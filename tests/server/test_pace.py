from __future__ import annotations

from dataclasses import replace

import pytest

from server.live import LiveJob
from server.pace import Pace
from tests.server.scripted import new_job


def test_the_first_job_is_guessed_and_the_next_follow_what_was_measured() -> None:
    """A moving mean: a new kind of job takes it over within a few."""
    pace = Pace()
    assert pace.seconds_per_job == 5
    pace.note(100)
    assert pace.seconds_per_job == 100
    for _ in range(20):
        pace.note(10)
    assert pace.seconds_per_job == pytest.approx(10, abs=0.2)


def test_a_waiting_client_asks_by_its_place() -> None:
    """An eighth of the time until it is done, between 0.2 and 10 s."""
    pace = Pace()
    pace.note(8)
    live = LiveJob(new_job())
    assert [pace.poll_after_ms(live, position) for position in (0, 1, 100)] == [1000, 2000, 10_000]
    for _ in range(50):
        pace.note(0.01)
    assert pace.poll_after_ms(live, 0) == 200


def test_a_running_job_is_asked_by_what_is_left_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """40 % done after 16 s: 24 s are left, so it is asked in 3 s."""
    live = LiveJob(replace(new_job(), started_us=1_800_000_000 * 10**6))
    live.progress.percent = 40
    monkeypatch.setattr("server.pace.time.time", lambda: 1_800_000_016.0)
    assert Pace().poll_after_ms(live, None) == 3000
