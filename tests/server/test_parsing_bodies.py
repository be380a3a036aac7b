"""Bodies that are not what they should be: each is a 4xx in the envelope, and never a crash."""

from __future__ import annotations

import json
import random

import pytest

from tests.server.door import Door
from tests.server.raw_forms import END, FORM, GOOD, part

PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\xff\xfe"


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "application/json; charset=utf-8",
        "Application/JSON;charset=UTF-8",
        "application/vnd.api+json",
        "text/json",
    ],
)
async def test_json_is_known_by_several_names(door: Door, content_type: str) -> None:
    """Parameters, case and vendor prefixes do not matter."""
    assert (await door.post(b'{"prompt": "x"}', content_type)).values == {"prompt": "x"}


async def test_a_byte_order_mark_is_no_part_of_the_text(door: Door) -> None:
    """Some shells put one before what they send."""
    assert (await door.json(b'\xef\xbb\xbf{"prompt": "x"}')).values == {"prompt": "x"}


@pytest.mark.parametrize(
    ("content", "content_type"),
    [
        (b"prompt=x", "application/x-www-form-urlencoded"),
        (b'{"prompt": "x"}', None),
        (b"", None),
        (b'{"prompt": "x"}', "text/plain"),
        (b'{"prompt": "x"}', "application/jsonp"),
        (b'{"prompt": "x"}', ";;;"),
        ('{"prompt": "x"}'.encode("utf-16"), "application/json; charset=utf-16"),
        (GOOD + END, "multipart/mixed; boundary=b"),
    ],
)
async def test_another_type_is_unsupported(door: Door, content: bytes, content_type: str | None) -> None:
    """415 that says what is accepted."""
    outcome = await door.post(content, content_type)
    assert outcome.status == 415
    assert (
        "application/json or multipart/form-data" in outcome.error["message"]
        or "UTF-8" in outcome.error["message"]
    )


async def test_a_compressed_body_is_unsupported(door: Door) -> None:
    """A small body must not grow on arrival."""
    outcome = await door.post(b"\x1f\x8b", "application/json", **{"content-encoding": "gzip"})
    assert outcome.status == 415
    assert "gzip" in outcome.error["message"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b" ",
        b"{",
        b'{"prompt": "x"',
        b'{"prompt": "x",}',
        b"{'prompt': 'x'}",
        b"[]",
        b'["prompt"]',
        b'"prompt"',
        b"null",
        b"5",
        b"NaN",
        b'{"prompt": "x", "seed": NaN}',
        b'{"prompt": "x", "seed": -Infinity}',
        b'{"prompt": "x", "metadata": {"a": Infinity}}',
        b'{"prompt": "x"} {"prompt": "x"}',
        b'{"prompt": "\xff\xfe"}',
        b'{"prompt": "a\nb"}',
        b'{"prompt": "x", "metadata": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
        b'{"prompt": "x", "metadata": ' + b'{"a":' * 20_000 + b"1" + b"}" * 20_000 + b"}",
        b'{"prompt": "x", "metadata": [' + b"0," * 1_000_000 + b"0]}",
        b'{"prompt": "x", "metadata": [' + b"[]," * 400_000 + b"0]}",
        PNG,
        PNG * 100_000,
        bytes(1000),
        "{}".encode("utf-16"),
    ],
)
async def test_json_that_cannot_be_read_is_refused(door: Door, content: bytes) -> None:
    """Syntax, constants, encodings, nesting and numbers of values: 400 without a field."""
    outcome = await door.post(content, "application/json")
    assert outcome.status == 400
    assert outcome.error["param"] is None
    assert outcome.error["type"] == "invalid_request_error"
    assert len(outcome.error["message"]) < 300


async def test_a_form_under_a_json_type_is_recognized(door: Door) -> None:
    """The answer says what went wrong, not only that a byte was unexpected."""
    outcome = await door.post(GOOD + END, "application/json")
    assert outcome.status == 400
    assert "multipart form" in outcome.error["message"]


@pytest.mark.parametrize("field", ["prompt", "seed", "size", "model", "output_format", "zzz"])
async def test_half_a_surrogate_pair_is_refused_and_echoed_safely(door: Door, field: str) -> None:
    """Half an emoji in a value, or in a name, reaches the message only as an escape."""
    others = "" if field == "prompt" else '"prompt": "x", '
    outcome = await door.json("{" + others + f'"{field}": "a\\ud83d"' + "}")
    assert outcome.status == 400
    assert outcome.error["param"] == field
    outcome = await door.json('{"prompt": "x", "a\\ud83d": 1}')
    assert outcome.status == 400
    assert outcome.error["param"] == "a\\ud83d"


@pytest.mark.parametrize("digits", ["9" * 5_000, "-" + "9" * 5_000, "0." + "9" * 5_000, "1e" + "9" * 5_000])
@pytest.mark.parametrize("field", ["seed", "num_frames", "fps", "seconds", "guidance_scale", "user"])
async def test_thousands_of_digits_are_refused(door: Door, field: str, digits: str) -> None:
    """Kept as text, no conversion of them can take long or fail; a field without effect may have them."""
    outcome = await door.json(f'{{"prompt": "x", "{field}": {digits}}}')
    if field == "user":
        assert outcome.status == 200
    else:
        assert outcome.status == 400
        assert outcome.error["param"] == field
        assert len(outcome.error["message"]) < 300


@pytest.mark.parametrize(
    "content",
    [
        b"",
        GOOD,
        GOOD + b"--b",
        GOOD + b"--b-",
        b"--c\r\n",
        b"prompt=x",
        b'{"prompt": "x"}',
        PNG,
        b"--b\r\n\r\nx\r\n" + END,
        b"--b\r\nContent-Disposition: form-data\r\n\r\nx\r\n" + END,
        b"--b\r\nContent-Disposition form-data\r\n\r\nx\r\n" + END,
        b'--b\r\nContent-Disposition: form-data; name="\xff"\r\n\r\nx\r\n' + END,
        b"--b\r\n" + b"X-Header: " + b"x" * 100_000 + b"\r\n\r\nx\r\n" + END,
        b"--b\r\n" + b"X-Header: x\r\n" * 1_000 + b"\r\nx\r\n" + END,
    ],
)
async def test_a_form_that_cannot_be_read_is_refused(door: Door, content: bytes) -> None:
    """Cut off, without names, without headers, with endless ones: 400 without a field."""
    outcome = await door.post(content, FORM)
    assert outcome.status == 400
    assert outcome.error["param"] is None


async def test_an_empty_form_lacks_a_prompt(door: Door) -> None:
    """It is a form, only with nothing in it."""
    outcome = await door.post(END, FORM)
    assert outcome.error["param"] == "prompt"


@pytest.mark.parametrize("content_type", ["multipart/form-data", "multipart/form-data; boundary="])
async def test_a_form_needs_a_boundary(door: Door, content_type: str) -> None:
    """Fetch clients that set the type by hand forget it."""
    outcome = await door.post(GOOD + END, content_type)
    assert outcome.status == 400
    assert "boundary" in outcome.error["message"]


async def test_form_text_must_be_utf8(door: Door) -> None:
    """Latin-1 is not guessed at; the field is named."""
    outcome = await door.post(part(b"prompt", b"caf\xe9") + END, FORM)
    assert outcome.status == 400
    assert outcome.error["param"] == "prompt"
    assert "UTF-8" in outcome.error["message"]


async def test_encoded_parts_are_refused(door: Door) -> None:
    """A base64 part would otherwise be taken for the text that it encodes."""
    encoded = part(b"prompt", b"eA==", b"Content-Transfer-Encoding: base64")
    outcome = await door.post(encoded + END, FORM)
    assert outcome.status == 400
    assert outcome.error["param"] == "prompt"


async def test_text_around_the_parts_is_no_field(door: Door) -> None:
    """Line ends before and an epilogue after the parts are allowed."""
    outcome = await door.post(b"\r\n" + GOOD + END + b"ignored", FORM)
    assert outcome.values == {"prompt": "x"}


async def test_a_file_may_hold_what_looks_like_a_boundary(door: Door) -> None:
    """Only a whole delimiter ends a part."""
    data = b"\r\n--\r\n--a\r\n-b\r\r\n--"
    upload = part(b'image"; filename="upload', data)
    outcome = await door.post(GOOD + upload + END, FORM)
    assert outcome.file("input_reference") == data


@pytest.mark.parametrize("seed", range(20))
async def test_damaged_bodies_never_crash(door: Door, seed: int) -> None:
    """Random bytes changed, removed and repeated in good bodies: 200 or a clean 4xx."""
    draw = random.Random(seed)  # noqa: S311 - repeatable damage
    good: list[tuple[bytes, str]] = [
        (
            json.dumps({"prompt": "x", "size": "832x480", "extra_params": {"seed": 1}}).encode(),
            "application/json",
        ),
        (GOOD + part(b"size", b"832x480") + part(b"extra_params[seed]", b"1") + END, FORM),
    ]
    for body, kind in good:
        for _ in range(50):
            outcome = await door.post(_damage(body, draw), kind)
            assert outcome.status in (200, 400, 404), outcome.body
            assert outcome.status == 200 or outcome.error["message"]


def _damage(body: bytes, draw: random.Random) -> bytes:
    data = bytearray(body)
    for _ in range(draw.randint(1, 4)):
        place = draw.randrange(len(data))
        match draw.randrange(3):
            case 0:
                data[place] = draw.randrange(256)
            case 1:
                del data[place : place + draw.randint(1, 8)]
            case _:
                data[place:place] = data[place : place + draw.randint(1, 20)]
    return bytes(data)
