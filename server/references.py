"""Uploads and `data:` URIs → upright RGB pictures on disk, decoded in a bounded child process."""

from __future__ import annotations

import os
from math import ceil
from pathlib import Path

from anyio import to_thread

from server.children import Ended
from server.data_uris import BadDataUri, is_data_uri, read_data_uri
from server.echo import clean, shown
from server.errors import BadField, FieldTooLarge, InvalidImage
from server.forked import REFUSED, WRITE_FAILED, Order
from server.forking import ForkServer
from server.remote import RemoteFiles, is_remote
from server.schemas import ImageReference, Reference
from server.settings import ImageSettings, UrlSettings
from server.spool import Spool, Upload

CHILDREN = 2
"""Pictures decoded side by side; each may take gigabytes at the pixel limit."""
BASE_MEMORY = 512 * 2**20
BASE_OUTPUT = 2**20
BYTES_PER_PIXEL = 24
"""Pillow keeps four bytes a pixel, and up to six copies meet: decoded, upright, with alpha, background."""

_WAYS = "send the picture as a file or as a data: URI"


class References:
    """Stores the pictures that requests refer to. One instance a server, as it bounds the children."""

    def __init__(self, settings: ImageSettings, folder: Path, remote: RemoteFiles | None = None) -> None:
        """`folder` is where spools go; without `remote`, URLs are not enabled."""
        self._remote = remote or RemoteFiles(UrlSettings())
        self._settings = settings
        self._folder = folder
        self._pictures = ForkServer("server.reference_child", CHILDREN)

    async def store_image(self, reference: Reference, field: str, target: Path) -> None:
        """Write the picture to `target`, an upright 8-bit RGB PNG, whole or not at all.

        Its folder must exist. `field` is the name that errors carry.

        Raises:
            BadField: a kind of reference that is not taken.
            InvalidImage: not a picture, damaged, or of too many pixels.
            FieldTooLarge: more than `images.max_bytes`.
        """
        part = _part_of(target)
        with Spool(self._folder) as spool:
            upload = await self._upload(reference, field, spool)
            if upload.size > self._settings.max_bytes:
                raise _too_large(field, self._settings.max_bytes)
            try:
                await self._decode(upload, field, part)
                part.replace(target)
            finally:
                part.unlink(missing_ok=True)

    async def close(self) -> None:
        """End the process that decodes."""
        await self._pictures.close()

    async def _upload(self, reference: Reference, field: str, spool: Spool) -> Upload:
        """The encoded picture: the file itself, or what the reference names, which goes to the spool."""
        if isinstance(reference, Upload):
            return reference
        if is_remote(reference.image_url):
            return await self._remote.fetch(reference.image_url, field, spool)
        return await to_thread.run_sync(_named, reference, field, spool)

    async def _decode(self, upload: Upload, field: str, part: Path) -> None:
        source = await to_thread.run_sync(upload.spool.fileno)
        with part.open("xb") as target:
            try:
                ended = await self._pictures.run(
                    self._order(upload), source, target.fileno(), self._settings.timeout_s
                )
            except TimeoutError:
                seconds = self._settings.timeout_s
                raise InvalidImage(field, f"cannot be decoded within {seconds:g} s") from None
        _check(ended, field)

    def _order(self, upload: Upload) -> Order:
        pixels = self._settings.max_pixels
        return Order(
            start=upload.start,
            size=upload.size,
            memory=BASE_MEMORY + BYTES_PER_PIXEL * pixels,
            seconds=ceil(self._settings.timeout_s),
            max_output=BASE_OUTPUT + 4 * pixels,
            arguments={"max_pixels": pixels},
        )


def _check(ended: Ended, field: str) -> None:
    """
    Raises:
        InvalidImage: the picture is at fault.
        OSError: it is not.
    """
    words = ended.output.decode(errors="replace").strip()
    if ended.status == REFUSED:
        raise InvalidImage(field, clean(words, 200))
    if ended.status < 0:
        raise InvalidImage(field, "takes too much time or memory to decode, or is damaged")
    if ended.status == WRITE_FAILED and words.isdigit():
        raise OSError(int(words), os.strerror(int(words)))
    if ended.status != 0:
        raise OSError(f"the decoder of references ended with status {ended.status}")


def _part_of(target: Path) -> Path:
    return target.absolute().with_name(f"{target.name}.part")


def _named(reference: ImageReference, field: str, spool: Spool) -> Upload:
    if reference.image_url is None:
        raise BadField(field, f"file_id {shown(reference.file_id)} is not known here; {_WAYS}")
    if not is_data_uri(reference.image_url):
        raise BadField(field, f"{shown(reference.image_url)} is not allowed; {_WAYS}")
    try:
        return spool.add(read_data_uri(reference.image_url))
    except BadDataUri as error:
        raise InvalidImage(field, str(error)) from None


def _too_large(field: str, max_bytes: int) -> FieldTooLarge:
    return FieldTooLarge(field, f"a picture is limited to {max_bytes:,} bytes")
