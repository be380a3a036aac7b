"""Multipart bodies as no library writes them, and as odd ones do, sent by httpx."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.e2e.requests import SMALL, png
from tests.serving import PATIENCE_S

BOUNDARY = "----a'b+c_1,2-3.4:5=6?7"
"""All that a boundary may hold and still has to be quoted."""
TYPE = f'multipart/form-data; boundary="{BOUNDARY}"'


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, timeout=PATIENCE_S) as opened:
        yield opened


def part(disposition: str, content: bytes | str, *headers: str) -> bytes:
    data = content if isinstance(content, bytes) else content.encode()
    head = "".join(f"{line}\r\n" for line in (f"Content-Disposition: {disposition}", *headers))
    return f"--{BOUNDARY}\r\n{head}\r\n".encode() + data + b"\r\n"


def field(name: str, value: object) -> bytes:
    return part(f'form-data; name="{name}"', str(value))


def form(*parts: bytes, end: bytes = b"\r\n") -> bytes:
    return b"".join(parts) + f"--{BOUNDARY}--".encode() + end


QUICK = [field(name, value) for name, value in SMALL.items()]
PICTURED = [*QUICK, field("model", "tiny-wan-ti2v")]


def post(client: httpx.Client, body: bytes, kind: str = TYPE, **headers: str) -> httpx.Response:
    return client.post("/v1/videos", content=body, headers={"Content-Type": kind} | headers)


def made(response: httpx.Response) -> dict[str, Any]:
    assert response.status_code == 200, response.text
    video: dict[str, Any] = response.json()
    return video


def refused(response: httpx.Response) -> dict[str, Any]:
    assert response.status_code == 400, response.text
    error: dict[str, Any] = response.json()["error"]
    return error


@pytest.mark.parametrize(
    "body",
    [
        form(*QUICK),
        form(*QUICK, end=b""),
        form(*QUICK, end=b"\r\nwhat follows is not part of the form"),
    ],
    ids=["plain", "no final CRLF", "epilogue"],
)
def test_the_edges_of_a_form(client: httpx.Client, body: bytes) -> None:
    """No line end is needed after the close, and what follows it is nothing."""
    assert made(post(client, body))["seed"] == SMALL["seed"]


@pytest.mark.parametrize(
    "disposition",
    [
        'form-data; name="seed"',
        "form-data; name=seed",
        'form-data;name="seed"',
        'FORM-DATA; NAME="seed"',
        'form-data ; name = "seed"',
    ],
)
def test_the_ways_to_write_a_name(client: httpx.Client, disposition: str) -> None:
    """Quoted or not, any case, with blanks: the same name."""
    body = form(*QUICK[:-1], part(disposition, "11"))
    assert made(post(client, body))["seed"] == 11


@pytest.mark.parametrize("name", ["Content-Disposition", "content-disposition", "CONTENT-DISPOSITION"])
def test_header_names_have_no_case(client: httpx.Client, name: str) -> None:
    """As everywhere in HTTP."""
    assert made(post(client, form(*QUICK).replace(b"Content-Disposition", name.encode())))["seed"] == 7


@pytest.mark.parametrize(
    ("disposition", "headers"),
    [
        ('form-data; name="input_reference"; filename="a.png"', ()),
        ('form-data; name="input_reference"; filename="upload"', ("Content-Type: application/octet-stream",)),
        ('form-data; name="input_reference"; filename="a.png"', ("Content-Type: text/plain",)),
        ("form-data; name=\"input_reference\"; filename*=UTF-8''%C3%A4%E2%82%AC.png", ()),
        ('form-data; name="input_reference"; filename="x.png"; filename*=UTF-8\'\'%E2%82%AC.png', ()),
        ('form-data; name="input_reference"; filename="a;b\\"c.png"', ()),
        ('form-data; name="input_reference"; filename="C:\\dir\\a.png"', ()),
        ('form-data; name="input_reference"; filename="ä€.png"', ()),
        ('form-data; name="input_reference"', ("Content-Type: image/png",)),
        ('form-data; name="input_reference"; filename=""', ("Content-Type: image/png",)),
    ],
)
def test_the_ways_to_send_a_picture(client: httpx.Client, disposition: str, headers: tuple[str, ...]) -> None:
    """Whatever its name and type, it is judged by its bytes."""
    body = form(*PICTURED, part(disposition, png(), *headers))
    assert made(post(client, body))["model"] == "tiny-wan-ti2v"


def test_an_empty_file_input_is_not_given(client: httpx.Client) -> None:
    """A browser sends an untouched file input with no name and no bytes."""
    empty = part(
        'form-data; name="input_reference"; filename=""', b"", "Content-Type: application/octet-stream"
    )
    assert made(post(client, form(*QUICK, empty)))["model"] == "tiny-wan-t2v"


def test_text_may_say_its_type(client: httpx.Client) -> None:
    """Java's clients write a type and a length into every part; line ends inside the text stay."""
    prompt = part(
        'form-data; name="prompt"',
        "a réd\r\ncircle\n",
        "Content-Type: text/plain; charset=UTF-8",
        "Content-Transfer-Encoding: 8bit",
        "Content-Length: 17",
    )
    assert made(post(client, form(prompt, *QUICK[1:])))["prompt"].splitlines() == ["a réd", "circle"]


def test_a_body_in_chunks_of_one_byte(client: httpx.Client) -> None:
    """Delimiters and headers may be cut anywhere."""
    body = form(*PICTURED, part('form-data; name="input_reference"; filename="a.png"', png()))
    pieces = (body[at : at + 1] for at in range(len(body)))
    response = client.post("/v1/videos", content=pieces, headers={"Content-Type": TYPE})
    assert made(response)["model"] == "tiny-wan-ti2v"


@pytest.mark.parametrize(
    "body",
    [
        form(*QUICK).replace(b"\r\n", b"\n"),
        form(*QUICK)[:-40],
        b"".join(QUICK),
        b"",
        b"no delimiter at all",
        b"what comes before\r\n" + form(*QUICK),
        form(*QUICK).replace(BOUNDARY.encode() + b"\r\n", BOUNDARY.encode() + b" \t\r\n"),
        form(*QUICK, part("form-data", "nameless")),
        form(*QUICK, f"--{BOUNDARY}\r\n\r\nno headers\r\n".encode()),
        form(*QUICK, part('form-data; name="user"', "eA==", "Content-Transfer-Encoding: base64")),
        form(*QUICK, part('form-data; name="us\xffer"', "x").replace("\xff".encode(), b"\xff")),
        form(*[field("user", "x")] * 101),
    ],
    ids=[
        "bare newlines",
        "cut off",
        "never closed",
        "empty",
        "no form",
        "preamble",
        "padded delimiters",
        "nameless part",
        "part without headers",
        "base64",
        "name not UTF-8",
        "too many parts",
    ],
)
def test_what_is_no_form_is_refused(client: httpx.Client, body: bytes) -> None:
    """400 in OpenAI's envelope, whatever is wrong."""
    error = refused(post(client, body))
    assert error["type"] == "invalid_request_error"
    assert error["message"]


@pytest.mark.parametrize(
    ("parts", "param"),
    [
        ([*QUICK, field("seed", 8)], "seed"),
        ([*QUICK, part('form-data; name="size"; filename="a.png"', png())], "size"),
        ([*QUICK[1:], part('form-data; name="prompt"', b"\xff\xfe")], "prompt"),
        ([*QUICK, field("video_codec_options", '{"crf": ')], "video_codec_options"),
        ([*QUICK, field("a[b", "x")], "a[b"),
        ([*QUICK, field("metadata" + "[x]" * 20, "x")], "metadata" + "[x]" * 20),
        (QUICK[1:], "prompt"),
    ],
)
def test_the_wrong_field_is_named(client: httpx.Client, parts: list[bytes], param: str) -> None:
    """Twice, a file for text, not UTF-8, broken JSON, odd brackets, too deep, missing."""
    assert refused(post(client, form(*parts)))["param"] == param


@pytest.mark.parametrize(
    "kind", ["multipart/form-data", "multipart/form-data; boundary=", "application/json"]
)
def test_a_form_by_another_name(client: httpx.Client, kind: str) -> None:
    """Without its boundary, or called JSON: 400 that says so."""
    assert "form" in refused(post(client, form(*QUICK), kind))["message"]


def test_urlencoded_is_not_accepted(client: httpx.Client) -> None:
    """httpx sends `data=` without files that way: 415, which names what is accepted."""
    response = client.post("/v1/videos", data=SMALL)
    assert response.status_code == 415
    assert "multipart/form-data" in response.json()["error"]["message"]
