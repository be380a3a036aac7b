from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.queue import JobQueue


def filled(*jobs: str) -> JobQueue:
    """A queue of jobs called by their owner's letter and a number."""
    queue = JobQueue()
    for job in jobs:
        queue.push(job, job[0])
    return queue


def emptied(queue: JobQueue) -> list[str]:
    return [queue.pop() for _ in range(len(queue))]


def test_one_owner_is_served_in_order() -> None:
    assert emptied(filled("a1", "a2", "a3")) == ["a1", "a2", "a3"]


def test_owners_take_turns() -> None:
    """Whoever comes with one job waits for one job of the one who came with many."""
    assert emptied(filled("a1", "a2", "a3", "b1", "c1", "c2")) == ["a1", "b1", "c1", "a2", "c2", "a3"]


def test_a_turn_is_not_won_by_leaving_and_coming_back() -> None:
    """An owner who was just served stands behind all others again."""
    queue = filled("a1", "b1", "b2")
    assert queue.pop() == "a1"
    queue.push("a2", "a")
    assert emptied(queue) == ["b1", "a2", "b2"]


def test_a_job_that_runs_again_is_its_owners_next() -> None:
    queue = filled("a1", "a2", "b1")
    queue.push("a0", "a", first=True)
    assert emptied(queue) == ["a0", "b1", "a1", "a2"]


def test_a_removed_job_leaves_no_gap() -> None:
    queue = filled("a1", "b1", "a2")
    assert queue.remove("b1")
    assert not queue.remove("b1")
    assert ("b1" in queue, len(queue)) == (False, 2)
    assert queue.position("b1") is None
    assert emptied(queue) == ["a1", "a2"]


def test_nothing_to_take() -> None:
    with pytest.raises(IndexError, match="no job waits"):
        JobQueue().pop()


async def test_waiting_for_a_job() -> None:
    """It comes when one is pushed, and does not when the last one was taken."""
    queue = JobQueue()
    waiting = asyncio.create_task(queue.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    queue.push("a1", "a")
    await waiting
    queue.pop()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(queue.wait(), 0.01)


@given(st.lists(st.sampled_from(["a", "b", "c", "d", "take", "drop"]), max_size=60))
def test_positions_foretell_the_order(steps: list[str]) -> None:
    """Whatever came and went: jobs are taken in the order of their positions, each owner's in its own order,
    and nobody is served twice while another one waits all along."""
    queue = JobQueue()
    for number, step in enumerate(steps):
        if step == "take" and len(queue):
            queue.pop()
        elif step == "drop" and len(queue):
            queue.remove(f"{steps.index(min(set(steps) - {'take', 'drop'}))}")
        elif step not in ("take", "drop"):
            queue.push(str(number), step)
    waiting = [str(number) for number in range(len(steps)) if str(number) in queue]
    foretold = sorted(waiting, key=lambda job: queue.position(job) or 0)
    counts = Counter(steps[int(job)] for job in waiting)
    taken = emptied(queue)
    assert taken == foretold
    for owner in counts:
        own = [int(job) for job in taken if steps[int(job)] == owner]
        assert own == sorted(own)
    rounds = [steps[int(job)] for job in taken]
    for place, owner in enumerate(rounds):
        earlier = Counter(rounds[:place])
        for other in counts:
            if earlier[other] < counts[other]:  # still waiting
                assert earlier[owner] <= earlier[other]
