"""Uploads and `data:` URIs → upright RGB pictures on disk, decoded in a bounded child process."""

from __future__ import annotations

import base64
import binascii
from math import ceil
from pathlib import Path
from urllib.parse import unquote_to_bytes

from anyio import to_thread

from server.children import Children
from server.echo import clean, shown
from server.errors import BadField, FieldTooLarge, InvalidImage
from server.schemas import ImageReference, Reference
from server.settings import ImageSettings

CHILDREN = 2
"""Pictures decoded side by side; each may take gigabytes at the pixel limit."""
EXIT_REFUSED = 65
"""What the child exits with when the picture is at fault."""

_CHILD = Path(__file__).with_name("reference_child.py")
_WAYS = "send the picture as a file or as a data: URI"


class References:
    """Stores the pictures that requests refer to. One instance a server, as it bounds the children."""

    def __init__(self, settings: ImageSettings) -> None:
        self._settings = settings
        self._children = Children(CHILDREN)

    async def store_image(self, reference: Reference, field: str, target: Path) -> None:
        """Write the picture to `target`, an upright 8-bit RGB PNG, whole or not at all.

        Its folder must exist. `field` is the name that errors carry.

        Raises:
            BadField: a kind of reference that is not taken.
            InvalidImage: not a picture, damaged, or of too many pixels.
            FieldTooLarge: more than `images.max_bytes`.
        """
        data = await _read(reference, field, self._settings.max_bytes)
        part = _part_of(target)
        try:
            await self._decode(data, field, part)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)

    async def _decode(self, data: bytes, field: str, part: Path) -> None:
        seconds = self._settings.timeout_s
        arguments = (str(_CHILD), str(self._settings.max_pixels), str(ceil(seconds)), str(part))
        try:
            ended = await self._children.run("-I", *arguments, timeout_s=seconds, data=data)
        except TimeoutError:
            raise InvalidImage(field, f"cannot be decoded within {seconds:g} s") from None
        if ended.status == EXIT_REFUSED:
            raise InvalidImage(field, clean(ended.output.decode(errors="replace").strip(), 200))
        if ended.status < 0:
            raise InvalidImage(field, "takes too much time or memory to decode, or is damaged")
        if ended.status != 0:
            raise OSError(f"the decoder of reference pictures ended with status {ended.status}")


def _part_of(target: Path) -> Path:
    return target.absolute().with_name(f"{target.name}.part")


async def _read(reference: Reference, field: str, max_bytes: int) -> bytes:
    """The encoded picture."""
    if isinstance(reference, bytes):
        data = reference
    else:
        data = await to_thread.run_sync(_named, reference, field, max_bytes)
    if len(data) > max_bytes:
        raise _too_large(field, max_bytes)
    return data


def _named(reference: ImageReference, field: str, max_bytes: int) -> bytes:
    if reference.image_url is None:
        raise BadField(field, f"file_id {shown(reference.file_id)} is not known here; {_WAYS}")
    scheme = reference.image_url[:100].partition(":")[0].lower()
    if scheme in ("http", "https"):
        raise BadField(field, f"URLs are not enabled on this server; {_WAYS}")
    if scheme != "data":
        raise BadField(field, f"{shown(reference.image_url)} is not allowed; {_WAYS}")
    return _from_data_uri(reference.image_url, field, max_bytes)


def _from_data_uri(uri: str, field: str, max_bytes: int) -> bytes:
    """The bytes of `data:[type][;base64],…`; the type is not believed, the bytes are judged later."""
    head, comma, payload = uri.partition(",")
    if not comma:
        raise InvalidImage(field, f"{shown(uri)} is not a data: URI; it must have a comma before the data")
    raw = unquote_to_bytes(payload)
    if not head.rstrip().lower().endswith(";base64"):
        return raw
    if len(raw) > max_bytes * 2:
        raise _too_large(field, max_bytes)
    return _from_base64(raw, field)


def _from_base64(raw: bytes, field: str) -> bytes:
    """Either alphabet, line breaks and missing padding allowed."""
    plain = raw.translate(bytes.maketrans(b"-_", b"+/"), b" \t\r\n")
    try:
        return base64.b64decode(plain + b"=" * (-len(plain) % 4), validate=True)
    except binascii.Error as error:
        raise InvalidImage(field, f"the data: URI is not base64: {error}") from None


def _too_large(field: str, max_bytes: int) -> FieldTooLarge:
    return FieldTooLarge(field, f"a picture is limited to {max_bytes:,} bytes")
