from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import openai
import pytest

from server.jobs import JobStatus
from server.webhooks import sender
from server.webhooks.sender import Retries
from tests.server.logged import lines
from tests.server.receiver import SECRET, Receiver, receiving
from tests.server.running import serving
from tests.server.sender import FAST, Sending, sending, unwrap, webhook
from tests.serving import free_port

pytestmark = pytest.mark.usefixtures("database_url")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as opened:
        yield opened


@pytest.fixture
def _short_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next server need not wait for the whole time of an attempt that its predecessor made."""
    monkeypatch.setattr(sender, "LEASE_MARGIN_S", 0.1 - FAST.timeout_s)


async def test_the_official_client_takes_both_events(tmp_path: Path, receiver: Receiver) -> None:
    """Through the whole server: unwrapped by openai-python as its own event types."""
    hooks = ({"url": receiver.url, "secret": SECRET, "allow_private": True},)
    async with serving(tmp_path, webhooks=hooks) as server:
        made = (await server.post()).json()["id"]
        await server.finish()
        failed = (await server.post()).json()["id"]
        server.engine.fail(await server.begun(2), "out_of_memory")
        first, second = await asyncio.to_thread(receiver.wait, 2)
    events = [unwrap(first), unwrap(second)]
    assert [(event.type, event.data.id, event.object) for event in events] == [
        ("video.completed", made, "event"),
        ("video.failed", failed, "event"),
    ]
    for event, received in zip(events, (first, second), strict=True):
        assert event.id.startswith("evt_")
        assert event.id == received.headers["webhook-id"]
        assert abs(event.created_at - received.at) < 60
        assert received.headers["content-type"] == "application/json"
        assert set(received.event) == {"id", "object", "created_at", "type", "data"}
        assert set(received.event["data"]) == {"id"}


@pytest.mark.parametrize("secret", [SECRET, "a plain secret", "whsec_AAAA"])
async def test_secrets_of_both_kinds(tmp_path: Path, receiver: Receiver, secret: str) -> None:
    """`whsec_` and base64, or the characters themselves; another secret does not verify."""
    async with sending(tmp_path, webhook(receiver.url, secret)) as made:
        await made.end()
        (received,) = await asyncio.to_thread(receiver.wait, 1)
    assert unwrap(received, secret).type == "video.completed"
    with pytest.raises(openai.InvalidWebhookSignatureError):
        unwrap(received, "another secret")


async def test_a_cancelled_job_is_told_as_failed(tmp_path: Path, receiver: Receiver) -> None:
    """Also when it is deleted at once: the event says what became of it."""
    hooks = ({"url": receiver.url, "secret": SECRET, "allow_private": True},)
    async with serving(tmp_path, webhooks=hooks) as server:
        job_id = (await server.post()).json()["id"]
        await server.begun()
        await server.client.delete(f"/v1/videos/{job_id}")
        (received,) = await asyncio.to_thread(receiver.wait, 1)
    assert (received.event["type"], received.event["data"]) == ("video.failed", {"id": job_id})


async def test_only_the_events_that_were_asked_for(tmp_path: Path, receiver: Receiver) -> None:
    """A receiver of failures hears nothing of a completed job."""
    async with sending(tmp_path, webhook(receiver.url, events=["video.failed"])) as made:
        await made.end()
        failed = await made.end(JobStatus.FAILED)
        (received,) = await asyncio.to_thread(receiver.wait, 1)
        await made.until(lambda: made.count("delivered") == 1)
    assert received.event["data"] == {"id": failed}


@pytest.mark.parametrize("status", [500, 503, 404, 410, 302])
async def test_what_is_no_success_is_tried_again(tmp_path: Path, receiver: Receiver, status: int) -> None:
    """The same id and body, a fresh stamp and signature; a redirect is not followed."""
    receiver.first, receiver.status = [status], 200
    seconds = status == 500  # stamps are whole ones: once there is time for another
    retries = Retries(first_s=1.4 if seconds else 0.1, timeout_s=60)
    async with sending(tmp_path, webhook(receiver.url), retries=retries) as made:
        await made.end()
        first, second = await asyncio.to_thread(receiver.wait, 2)
        await made.until(lambda: made.count("delivered") == 1)
    assert made.count("failed") == 1
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert (first.body, first.path) == (second.body, second.path)
    assert second.stamp - first.stamp >= seconds
    if second.stamp > first.stamp:
        assert first.headers["webhook-signature"] != second.headers["webhook-signature"]
    assert abs(second.stamp - second.at) < 60
    assert unwrap(first).id == unwrap(second).id


async def test_a_receiver_that_never_answers_is_tried_again(tmp_path: Path, receiver: Receiver) -> None:
    """The attempt is cut off after its time, and repeated."""
    receiver.delay_s = 600
    async with sending(tmp_path, webhook(receiver.url), retries=replace(FAST, timeout_s=0.5)) as made:
        await made.end()
        await asyncio.to_thread(receiver.wait, 2)
        receiver.delay_s = 0
        received = await asyncio.to_thread(receiver.wait, 3)
        await made.until(lambda: made.count("delivered") == 1)
    assert len({one.headers["webhook-id"] for one in received}) == 1


async def test_a_receiver_that_is_down_gets_it_when_it_is_up(tmp_path: Path) -> None:
    """Connection refused, again and again, then delivered."""
    with receiving(up=False) as receiver:
        async with sending(tmp_path, webhook(receiver.url)) as made:
            job_id = await made.end()
            await made.until(lambda: made.count("failed") >= 2)
            receiver.up()
            (received,) = await asyncio.to_thread(receiver.wait, 1)
            await made.until(lambda: made.count("delivered") == 1)
    assert received.event["data"] == {"id": job_id}


@pytest.mark.usefixtures("_short_leases")
async def test_an_event_outlives_the_server(tmp_path: Path) -> None:
    """Tried in vain by one server, delivered by the next with the same id."""
    with receiving(up=False) as receiver:
        hook = webhook(receiver.url)
        async with sending(tmp_path, hook) as made:
            job_id = await made.end()
            await made.until(lambda: made.count("failed") >= 1)
            (tried,) = await made.outbox.due(hook.url, time.time_ns() // 1000 + 10**9, 10)
            await made.store.delete(job_id)
        receiver.up()
        async with sending(tmp_path, hook) as made:
            (received,) = await asyncio.to_thread(receiver.wait, 1)
            await made.until(lambda: made.count("delivered") == 1)
            assert await made.outbox.next_us(hook.url) is None
    assert received.headers["webhook-id"] == tried.event_id
    assert received.event["data"] == {"id": job_id}


async def test_an_event_is_written_with_the_jobs_last_move(tmp_path: Path, receiver: Receiver) -> None:
    """A server that dies right after the move, before anything is sent, loses nothing."""
    dying = Sending(tmp_path, webhook(receiver.url))
    await dying.database.open()
    job_id = await dying.end()
    await dying.database.close()
    async with sending(tmp_path, webhook(receiver.url)):
        (received,) = await asyncio.to_thread(receiver.wait, 1)
    assert received.event["data"] == {"id": job_id}


@pytest.mark.usefixtures("_short_leases")
async def test_an_attempt_that_was_cut_off_is_repeated(tmp_path: Path, receiver: Receiver) -> None:
    """A server that dies while it sends leaves the delivery to the next one, which waits for its lease."""
    receiver.delay_s = 600
    hook = webhook(receiver.url)
    async with sending(tmp_path, hook) as made:
        await made.end()
        await asyncio.to_thread(receiver.wait, 1)
    receiver.delay_s = 0
    async with sending(tmp_path, hook) as made:
        first, second = await asyncio.to_thread(receiver.wait, 2)
    assert first.headers["webhook-id"] == second.headers["webhook-id"]


async def test_a_dead_receiver_delays_nothing(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither jobs nor what others are told, however many events wait for it."""
    monkeypatch.setattr(sender, "Retries", lambda: Retries(timeout_s=600))  # no attempt ends in this test
    with receiving() as dead:
        dead.delay_s = 600
        hooks = [{"url": url, "secret": SECRET, "allow_private": True} for url in (dead.url, receiver.url)]
        async with serving(tmp_path, webhooks=hooks) as server:
            for number in range(12):
                await server.post()
                await server.finish(number + 1)
            await asyncio.to_thread(receiver.wait, 12)
            await asyncio.to_thread(dead.wait, 1)
            assert len(dead.received) <= sender.PARALLEL


async def test_a_receiver_that_fails_at_one_event_gets_the_others(tmp_path: Path, receiver: Receiver) -> None:
    """An event in its pause between attempts holds up none that came later."""
    receiver.status = 500
    async with sending(tmp_path, webhook(receiver.url), retries=Retries(first_s=600)) as made:
        await made.end()
        await made.until(lambda: made.count("failed") == 1)
        receiver.status = 204
        later = await made.end()
        await made.until(lambda: made.count("delivered") == 1)
    assert [one.event["data"]["id"] for one in receiver.received][1:] == [later]


async def test_an_event_is_given_up_in_the_end(
    tmp_path: Path,
    receiver: Receiver,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After 72 hours: counted, logged without the URL's secrets, and forgotten."""
    receiver.status = 500
    with caplog.at_level(logging.INFO):
        async with sending(tmp_path, webhook(receiver.url)) as made:
            await made.end()
            await made.until(lambda: made.count("failed") >= 2)
            now_us = sender._now_us
            monkeypatch.setattr(sender, "_now_us", lambda: now_us() + 72 * 3600 * 10**6)
            await made.until(lambda: made.count("expired") == 1)
            assert await made.outbox.next_us(receiver.url) is None
    said = [line for line in lines(caplog) if " reelserve.webhooks: " in line]
    assert "webhook event given up event_id=evt_" in said[-1]
    assert not any("token" in line or SECRET in line for line in said)


async def test_a_private_receiver_must_be_allowed(
    tmp_path: Path, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    """A name that resolves to a private address is not connected to, and the log says why."""
    hook = webhook(f"http://localhost:{receiver.port}/", allow_private=False)
    async with sending(tmp_path, hook) as made:
        await made.end()
        await made.until(lambda: made.count("failed") >= 2)
    assert receiver.received == []
    assert "is not a public address" in lines(caplog)[-1]


async def test_what_nobody_is_configured_for_is_dropped(tmp_path: Path, receiver: Receiver) -> None:
    """Without the secret it can't be signed any more; other receivers keep theirs."""
    old, kept = webhook(f"http://127.0.0.1:{free_port()}/"), webhook(receiver.url)
    dying = Sending(tmp_path, old, kept)
    await dying.database.open()
    await dying.end()
    await dying.database.close()
    async with sending(tmp_path, kept) as made:
        await asyncio.to_thread(receiver.wait, 1)
        assert await made.outbox.next_us(old.url) is None


async def test_the_proxy_of_the_environment_is_not_used(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would connect to whatever it resolves."""
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("ALL_PROXY", f"http://127.0.0.1:{free_port()}")
    async with sending(tmp_path, webhook(receiver.url)) as made:
        await made.end()
        await asyncio.to_thread(receiver.wait, 1)


def test_the_pause_doubles_up_to_a_bound() -> None:
    """Two seconds at first, an hour at last; a quarter more or less, so that none is hit by all at once."""
    retries = Retries()
    for attempts, pause in ((1, 2), (2, 4), (5, 32), (12, 3600), (500, 3600)):
        drawn = [retries.pause_s(attempts) for _ in range(50)]
        assert pause * 0.75 <= min(drawn) < max(drawn) <= pause * 1.25
    assert retries.total_s == 72 * 60 * 60
