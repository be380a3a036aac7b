"""The table of idempotency keys: how long they are kept, whose they are, and many at once."""

from __future__ import annotations

import asyncio

import pytest

from server.database import Database
from server.errors import IdempotencyKeyReused
from server.idempotency import KEPT_S, IdempotencyKeys, KeyTaken
from server.schemas import VideoGenerationRequest
from server.store import Store
from tests.server.scripted import new_job

SECOND_NS = 1_000_000_000


class Clock:
    """A time that a test sets, in nanoseconds."""

    def __init__(self) -> None:
        self.ns = 1_700_000_000 * SECOND_NS

    def __call__(self) -> int:
        return self.ns


async def test_a_key_is_free_after_a_day(database: Database) -> None:
    """Until the last second it means its job; then another request may have it, and the row is gone."""
    clock = Clock()
    keys, store = IdempotencyKeys(database, clock), Store(database)
    request, other = VideoGenerationRequest(prompt="a"), VideoGenerationRequest(prompt="b")
    first, second = new_job(), new_job()
    await store.add(first, keys.claim("k", "/v1/videos", request))
    clock.ns += (KEPT_S - 1) * SECOND_NS
    assert await keys.find(keys.claim("k", "/v1/videos", request)) == first.id
    with pytest.raises(IdempotencyKeyReused):
        await keys.find(keys.claim("k", "/v1/videos", other))
    clock.ns += SECOND_NS
    claim = keys.claim("k", "/v1/videos", other)
    assert await keys.find(claim) is None
    await store.add(second, claim)
    assert await keys.find(keys.claim("k", "/v1/videos", other)) == second.id


async def test_old_keys_leave_with_any_new_one(database: Database) -> None:
    """The table holds a day of keys, not all there ever were."""
    clock = Clock()
    keys, store = IdempotencyKeys(database, clock), Store(database)
    request = VideoGenerationRequest(prompt="a")
    for number in range(5):
        await store.add(new_job(), keys.claim(f"old-{number}", "/v1/videos", request))
    clock.ns += KEPT_S * SECOND_NS
    await store.add(new_job(), keys.claim("new", "/v1/videos", request))
    async with database.reading() as connection:
        rows = await connection.exec_driver_sql("SELECT key FROM idempotency_keys")
        assert rows.scalars().all() == ["new"]


async def test_owners_have_keys_of_their_own(database: Database) -> None:
    """The same key from two clients is two jobs, and a request of one is no repetition of the other's."""
    keys, store = IdempotencyKeys(database), Store(database)
    mine, yours = VideoGenerationRequest(prompt="a"), VideoGenerationRequest(prompt="b")
    first, second = new_job(), new_job()
    await store.add(first, keys.claim("k", "/v1/videos", mine, "anna"))
    claim = keys.claim("k", "/v1/videos", yours, "bert")
    assert await keys.find(claim) is None
    await store.add(second, claim)
    assert await keys.find(keys.claim("k", "/v1/videos", mine, "anna")) == first.id
    assert await keys.find(keys.claim("k", "/v1/videos", yours, "bert")) == second.id


async def test_of_many_claims_at_once_one_is_written(database: Database) -> None:
    """Each on a connection of its own, with old keys to forget: one job, and nothing of the others."""
    clock = Clock()
    keys, store = IdempotencyKeys(database, clock), Store(database)
    request = VideoGenerationRequest(prompt="a")
    for number in range(10):
        await store.add(new_job(), keys.claim(f"old-{number}", "/v1/videos", request))
    clock.ns += KEPT_S * SECOND_NS
    before = await store.ids()
    names = [*(["k"] * 10), *(f"old-{number}" for number in range(10))]
    adding = [store.add(new_job(), keys.claim(name, "/v1/videos", request)) for name in names]
    results = await asyncio.gather(*adding, return_exceptions=True)
    assert [type(result) for result in results if result is not None] == [KeyTaken] * 9
    assert len(await store.ids() - before) == 11


async def test_two_servers_of_one_database_make_one_job(database: Database) -> None:
    """The slower of two that both saw a free key writes neither key nor job."""
    keys, store = IdempotencyKeys(database), Store(database)
    request = VideoGenerationRequest(prompt="a")
    claims = [keys.claim("k", "/v1/videos", request) for _ in range(2)]
    first, second = new_job(), new_job()
    await store.add(first, claims[0])
    with pytest.raises(KeyTaken):
        await store.add(second, claims[1])
    assert await keys.find(claims[1]) == first.id
    assert await store.unfinished() == [first]
