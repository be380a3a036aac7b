"""Bodies that are too large, and large ones that are not."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from server.data_uris import BadDataUri, read_data_uri
from tests.server.door import Door, as_form, make_settings
from tests.server.raw_forms import END, FORM, GOOD, part


@pytest.fixture
async def narrow() -> AsyncIterator[Door]:
    """A server with small limits: 10,000 bytes of body, 2,000 of text, 4,000 of a file, 5 parts."""
    opened = Door(
        make_settings(
            server={
                "max_body_bytes": 10_000,
                "max_text_bytes": 2_000,
                "max_file_bytes": 4_000,
                "max_form_parts": 5,
            }
        )
    )
    yield opened
    await opened.close()


async def _chunks(data: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


@pytest.mark.parametrize("content_type", ["application/json", FORM])
async def test_a_body_over_the_cap_is_too_large(narrow: Door, content_type: str) -> None:
    """With an announced length, and without one as soon as the bytes are too many."""
    body = (
        part(b"prompt", b"x" * 10_000) + END if content_type == FORM else json.dumps({"prompt": "x" * 10_000})
    )
    content = body if isinstance(body, bytes) else body.encode()
    for sent in (content, _chunks(content, 1_000)):
        outcome = await narrow.post(sent, content_type)
        assert outcome.status == 413
        assert outcome.error["code"] == "body_too_large"
        assert "10,000" in outcome.error["message"]


async def test_an_endless_body_is_cut_off(narrow: Door) -> None:
    """The server stops reading at its cap; the client is not waited for."""
    taken = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal taken
        while True:
            taken += 1_000
            yield b" " * 1_000

    outcome = await asyncio.wait_for(narrow.post(endless(), "application/json"), 60)
    assert outcome.status == 413
    assert taken < 20_000


@pytest.mark.parametrize("length", ["99999999999999999999999999", "20000"])
async def test_an_announced_length_is_believed_when_it_is_too_large(narrow: Door, length: str) -> None:
    """Nothing is read then."""
    outcome = await narrow.post(b"{}", "application/json", **{"content-length": length})
    assert outcome.status == 413


async def test_a_chunked_body_within_the_cap_is_read(narrow: Door) -> None:
    """A stream without a length is as good as a body with one."""
    assert (await narrow.post(_chunks(b'{"prompt": "x"}', 3), "application/json")).values == {"prompt": "x"}
    assert (await narrow.post(_chunks(GOOD + END, 3), FORM)).values == {"prompt": "x"}


async def test_a_text_part_over_its_limit_is_too_large(narrow: Door) -> None:
    """The field is named; a file of that size is not meant."""
    outcome = await narrow.post(GOOD + part(b"input_reference", b"x" * 2_001) + END, FORM)
    assert outcome.status == 413
    assert outcome.error["param"] == "input_reference"
    upload = part(b'image"; filename="upload', b"x" * 2_001)
    assert (await narrow.post(GOOD + upload + END, FORM)).parsed is not None


async def test_a_file_over_its_limit_is_too_large(narrow: Door) -> None:
    """As soon as it is known: the rest is not read, and nothing else of the form matters."""
    upload = part(b'last_image"; filename="upload', b"x" * 4_001)
    outcome = await narrow.post(GOOD + upload + b"no form any more", FORM)
    assert (outcome.status, outcome.error["param"]) == (413, "last_image")
    assert "4,000 bytes" in outcome.error["message"]


async def test_parts_are_counted(narrow: Door) -> None:
    """Also those that would be left out."""
    empty = part(b'image"; filename="', b"")
    outcome = await narrow.post(GOOD + empty * 5 + END, FORM)
    assert outcome.status == 400
    assert "5 parts" in outcome.error["message"]


async def test_near_misses_of_a_delimiter_are_counted(door: Door) -> None:
    """Each would cost the parser as much as a part; a file has no reason to be full of them."""
    few, many = (part(b'image"; filename="upload', b"\r\n--bx" * count) for count in (50, 2_000_000))
    assert (await door.post(GOOD + few + END, FORM)).parsed is not None
    outcome = await door.post(GOOD + many + END, FORM)
    assert outcome.status == 400
    assert "100 parts" in outcome.error["message"]


async def test_a_data_uri_of_megabytes_is_form_text(door: Door) -> None:
    """1.5 MB of picture as text: far above what form parsers allow by default, and within our own limit."""
    uri = "data:image/png;base64," + "A" * 1_500_000
    fields = {"prompt": "x", "model": "picture", "input_reference": uri}
    for send in (door.json, lambda given: door.form(as_form(given))):
        outcome = await send(fields)
        assert outcome.file("input_reference") == bytes(1_125_000)


async def test_a_long_text_that_is_no_data_uri_stays_one(door: Door) -> None:
    """To be refused where short ones are, with the same words."""
    for text in ("data:image/png;base64," + "?" * 500_000, "x" * 500_000):
        outcome = await door.json({"prompt": "x", "model": "picture", "input_reference": text})
        assert outcome.values["input_reference"] == {"image_url": text}


async def _longest_stretch(work: Callable[[], Awaitable[None]]) -> float:
    """How much the event loop's thread worked at most before it looked at anything else, while `work` was
    done: as a part of all that this process worked meanwhile, so that it is no matter who else is busy.
    """
    longest, began = 0.0, time.process_time()

    async def beat() -> None:
        nonlocal longest
        while True:
            before = time.thread_time()
            await asyncio.sleep(0.005)
            longest = max(longest, time.thread_time() - before)

    beating = asyncio.create_task(beat())
    await work()
    beating.cancel()
    return longest / (time.process_time() - began)


async def test_the_event_loop_goes_on_while_a_large_body_is_read(door: Door) -> None:
    """Tens of megabytes in JSON and in a form stop nothing else for long: threads do most of it."""
    text = "data:image/png;base64," + "A" * 15_000_000
    form = (
        GOOD
        + part(b"input_reference", text.encode())
        + part(b'last_image"; filename="u', bytes(30_000_000))
        + END
    )
    body = json.dumps({"prompt": "x", "input_reference": text, "last_image": text}).encode()

    async def send() -> None:
        # In pieces of the size in which they come from a socket.
        assert (await door.post(_chunks(form, 65_536), FORM)).parsed is not None
        assert (await door.post(_chunks(body, 65_536), "application/json")).parsed is not None

    assert await _longest_stretch(send) < 0.15


async def test_escapes_of_a_data_uri_have_a_bound(door: Door) -> None:
    """Each costs an object: a body full of them would hold the server for seconds."""
    uri = "data:image/png," + "%41" * 200_001
    for outcome in await door.both({"prompt": "x", "model": "picture", "input_reference": uri}):
        assert outcome.status in (200, 400)  # the door itself reads no pictures
    with pytest.raises(BadDataUri, match="200,000 escapes; write it as ;base64"):
        read_data_uri(uri)
    assert read_data_uri("data:," + "%41" * 200_000) == b"A" * 200_000


@pytest.mark.parametrize("filler", ["[", "1,", "{"])
async def test_a_body_of_values_alone_is_refused(door: Door, filler: str) -> None:
    """By counting, before any of them is made."""
    outcome = await door.json('{"prompt": "x", "metadata": ' + filler * 150_000)
    assert outcome.status == 400
    assert "more than 100,000 values" in outcome.error["message"]
