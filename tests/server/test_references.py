from __future__ import annotations

import asyncio
import base64
import contextlib
import struct
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from urllib.parse import quote_from_bytes

import pytest

from server.errors import FieldTooLarge, InvalidImage
from server.forking import ForkServer
from server.reference_schemas import ImageReference
from server.references import CHILDREN, References
from server.sections import ImageSettings, MediaSettings
from server.spool import Spool
from tests.server.forks import forks
from tests.server.pictures import (
    RED,
    SPOOLS,
    UPRIGHT,
    chunk,
    encoded,
    near,
    pixel,
    png,
    refusal,
    split,
    store,
    stored,
    zeros,
)


async def test_the_pixel_limit_is_the_operators(target: Path) -> None:
    """Exactly as many pixels as allowed are allowed."""
    data = encoded(split(), "PNG")
    assert "64x32" in (await refusal(data, target, max_pixels=64 * 32 - 1)).message
    assert (await stored(data, target, max_pixels=64 * 32)).size == (64, 32)


async def test_a_large_picture_fits_its_bounds(target: Path) -> None:
    """The memory that the child may take is enough for its pixels, with alpha and turned."""
    turn = chunk(b"eXIf", b"MM\0*" + struct.pack(">IHHHIHHI", 8, 1, UPRIGHT, 3, 1, 6, 0, 0))
    large = png((4_000, 3_000), 8, 6, zeros(16_000, 3_000), turn)
    assert (await stored(large, target, max_pixels=12_000_000)).size == (3_000, 4_000)


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> bytes:
    """A picture whose decoding takes for ever: there is a decoder that does what its file says."""
    server = partial(ForkServer, "tests.server.crashing_child")
    monkeypatch.setattr("server.references.ForkServer", lambda _module, limit: server(limit=limit))
    return b"sleep"


async def test_decoding_has_a_deadline(endless: bytes, target: Path) -> None:
    """What takes longer is refused, and its process is gone."""
    error = await refusal(endless, target, timeout_s=0.3)
    assert forks() == []
    assert isinstance(error, InvalidImage)
    assert "0.3 s" in error.message


@pytest.mark.parametrize(
    "uri",
    [
        "data:image/png;base64,{b64}",
        "data:;base64,{b64}",
        "DATA:image/jpeg;BASE64,{b64}",
        "data:image/png;charset=utf-8;base64,{b64}",
        "data:image/png;base64,{url64}",
        "data:image/png;base64,{quoted64}",
        "data:image/png;base64,{lines64}",
        "data:image/png,{quoted}",
    ],
)
async def test_data_uris(uri: str, target: Path) -> None:
    """With and without base64, either alphabet, padding or not; the type that it claims is not believed."""
    data = encoded(split(), "PNG")
    b64 = base64.b64encode(data).decode()
    text = uri.format(
        b64=b64,
        url64=base64.urlsafe_b64encode(data).decode().rstrip("="),
        quoted64=b64.replace("+", "%2B").replace("/", "%2F").replace("=", "%3D"),
        lines64="\r\n".join(b64[start : start + 76] for start in range(0, len(b64), 76)),
        quoted=quote_from_bytes(data),
    )
    assert near(pixel(await stored(ImageReference(image_url=text), target), 8, 16), RED)


@pytest.mark.parametrize(
    ("reference", "piece"),
    [
        (ImageReference(image_url="http://example.com/a.png"), "URLs are not enabled"),
        (ImageReference(image_url="HTTPS://example.com/a.png"), "URLs are not enabled"),
        (ImageReference(image_url="http://[bad/a.png"), "URLs are not enabled"),
        (ImageReference(image_url="javascript:alert(1)"), "is not allowed"),
        (ImageReference(image_url="file:///etc/passwd"), "is not allowed"),
        (ImageReference(image_url="/etc/passwd"), "is not allowed"),
        (ImageReference(image_url="ftp://example.com/a.png"), "is not allowed"),
        (ImageReference(image_url="picture.png"), "data: URI"),
        (ImageReference(image_url="data:image/png;base64"), "comma"),
        (ImageReference(image_url="data:image/png;base64,???"), "not base64"),
        (ImageReference(image_url="data:image/png;base64,QUJDR"), "not base64"),
        (ImageReference(image_url="data:image/png;base64,"), "is not a picture"),
        (ImageReference(file_id="file-123"), "as a file or as a data: URI"),
    ],
)
async def test_other_references_are_refused(reference: ImageReference, piece: str, target: Path) -> None:
    """URLs, local paths and file ids: 400 that says what is right."""
    assert piece in (await refusal(reference, target)).message


@pytest.mark.parametrize("as_uri", [False, True])
async def test_too_many_bytes(as_uri: bool, target: Path) -> None:
    """The operator's limit holds for uploads and for data: URIs; 413 with the field."""
    data = bytes(5_000)
    uri = ImageReference(image_url="data:;base64," + base64.b64encode(data).decode())
    with pytest.raises(FieldTooLarge, match="4,999 bytes") as caught:
        await store(uri if as_uri else data, target, ImageSettings(max_bytes=4_999), "image")
    assert caught.value.param == "image"


async def test_children_are_bounded(target: Path) -> None:
    """However many pictures arrive at once, only a few processes decode; all of them are stored."""
    references = References(ImageSettings(timeout_s=60), MediaSettings(), SPOOLS)
    most = 0

    async def count() -> None:
        nonlocal most
        while True:
            most = max(most, len(forks()))
            await asyncio.sleep(0.002)

    counting = asyncio.create_task(count())
    targets = [target.with_name(f"{number}.png") for number in range(8)]
    picture = encoded(split(3000, 3000), "PNG")  # large enough to be seen at work
    with ExitStack() as requests:
        uploads = [requests.enter_context(Spool(SPOOLS)).add(picture) for _ in targets]
        storing = zip(uploads, targets, strict=True)
        await asyncio.gather(*(references.store_image(upload, "image", path) for upload, path in storing))
    counting.cancel()
    await references.close()
    assert 0 < most <= CHILDREN
    assert all(path.is_file() for path in targets)


async def test_a_cancelled_request_leaves_nothing(endless: bytes, target: Path) -> None:
    """A client that goes away in mid-decoding leaves no process and no file."""
    storing = asyncio.create_task(store(endless, target, ImageSettings(timeout_s=600)))
    async with asyncio.timeout(60):
        while not forks():
            await asyncio.sleep(0.005)
    storing.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await storing
    assert forks() == []
    assert list(target.parent.iterdir()) == []


async def test_a_failed_write_is_our_own_fault(tmp_path: Path) -> None:
    """A full or missing folder is not blamed on the picture."""
    with pytest.raises(FileNotFoundError):
        await store(encoded(split(), "PNG"), tmp_path / "missing" / "image.png", ImageSettings())
