"""What requests refer to → pictures, sounds and films on disk to be trusted, decoded in bounded forks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path

from anyio import to_thread

from server.children import Ended
from server.data_uris import BadDataUri, is_data_uri, read_data_uri
from server.echo import clean, shown
from server.errors import BadField, FieldTooLarge, InvalidImage, InvalidMedia
from server.forked import REFUSED, WRITE_FAILED, Order
from server.forking import ForkServer
from server.reference_schemas import Named, Reference
from server.remote import RemoteFiles, is_remote
from server.sections import ImageSettings, MediaSettings, UrlSettings
from server.shapes import Shape
from server.spool import Spool, Upload

CHILDREN = 2
"""Files of a kind that are decoded side by side; each may take gigabytes at its limits."""
BASE_MEMORY = 512 * 2**20
BASE_OUTPUT = 2**20
PICTURE_BYTES = 24
"""A pixel. Pillow keeps four bytes, and up to six copies meet: decoded, upright, with alpha, background."""
FILM_BYTES = 200
"""A pixel of a frame. Decoders keep up to 32 frames, and up to four bytes a pixel; then there are copies."""

_WAYS = "send it as a file or as a data: URI"


@dataclass(frozen=True, slots=True)
class _Work:
    """How files of a kind are decoded, and what they are called and refused with."""

    noun: str
    error: type[BadField]
    server: ForkServer
    max_bytes: int
    timeout_s: float
    memory: int
    max_output: int
    arguments: Mapping[str, float]

    def order(self, upload: Upload) -> Order:
        return Order(
            start=upload.start,
            size=upload.size,
            memory=self.memory,
            seconds=ceil(self.timeout_s),
            max_output=self.max_output,
            arguments=self.arguments,
        )


class References:
    """Stores the files that requests refer to. One instance a server, as it bounds the children."""

    def __init__(
        self, images: ImageSettings, media: MediaSettings, folder: Path, remote: RemoteFiles | None = None
    ) -> None:
        """`folder` is where spools go; without `remote`, URLs are not enabled."""
        self._remote = remote or RemoteFiles(UrlSettings())
        self._folder = folder
        self._servers = [
            ForkServer(f"server.{name}", CHILDREN) for name in ("reference_child", "media_child")
        ]
        self._picture = _picture(images, self._servers[0])
        self._sound = _sound(media, self._servers[1])
        self._film = _film(media, self._servers[1])

    async def store_image(
        self, reference: Reference, field: str, target: Path, *, max_aspect: float | None = None
    ) -> Shape:
        """Write the picture to `target`, an upright 8-bit RGB PNG, whole or not at all, and say its shape.

        Its folder must exist. `field` is the name that errors carry. `max_aspect`: how much longer it may be
        one way than the other.

        Raises:
            BadField: a kind of reference that is not taken.
            InvalidImage: not a picture, damaged, of too many pixels, or too long one way.
            FieldTooLarge: more than `images.max_bytes`.
            OSError: there is no room for it.
        """
        work = _told(self._picture, max_aspect=max_aspect)
        return Shape.parse(await self._store(reference, field, target, work))

    async def store_audio(
        self, reference: Reference, field: str, target: Path, *, audible: bool = False
    ) -> None:
        """Write the sound to `target` as `store_image` does: WAV of 32-bit floats, mono or stereo, any rate.

        Raises:
            InvalidMedia: not a sound, damaged, longer than `media.max_audio_s`, or, if it is to be `audible`,
                silent.
            BadField, FieldTooLarge, OSError: as `store_image`, by the settings of `media`.
        """
        await self._store(reference, field, target, _told(self._sound, audible=audible))

    async def store_video(
        self,
        reference: Reference,
        field: str,
        target: Path,
        *,
        sound: bool = False,
        max_aspect: float | None = None,
        min_seconds: float | None = None,
    ) -> Shape:
        """Write the film to `target` as `store_image` does: Matroska with FFV1, upright 8-bit RGB, times from
        0 on. With `sound` it keeps its own, if it has any, as `store_audio` would, and at its time.

        Raises:
            InvalidMedia: not a film, damaged, or beyond the limits of `media`.
            BadField, FieldTooLarge, OSError: as `store_image`, by the settings of `media`.
        """
        work = _told(self._film, sound=sound, max_aspect=max_aspect, min_seconds=min_seconds)
        return Shape.parse(await self._store(reference, field, target, work))

    async def close(self) -> None:
        """End the processes that decode."""
        for each in self._servers:
            await each.close()

    async def _store(self, reference: Reference, field: str, target: Path, work: _Work) -> str:
        """Store it, and return what the fork says of it."""
        part = _part_of(target)
        with Spool(self._folder) as spool:
            upload = await self._upload(reference, field, spool, work)
            if upload.size > work.max_bytes:
                raise FieldTooLarge(field, f"{work.noun} is limited to {work.max_bytes:,} bytes")
            try:
                said = await _decode(upload, field, part, work)
                part.replace(target)
                return said
            finally:
                part.unlink(missing_ok=True)

    async def _upload(self, reference: Reference, field: str, spool: Spool, work: _Work) -> Upload:
        """The file as it was sent, or what the reference names, which goes to the spool."""
        if isinstance(reference, Upload):
            return reference
        if is_remote(reference.url):
            return await self._remote.fetch(reference.url, field, spool)
        try:
            return await to_thread.run_sync(_named, reference, field, spool)
        except BadDataUri as error:
            raise work.error(field, str(error)) from None


def _picture(settings: ImageSettings, server: ForkServer) -> _Work:
    return _Work(
        noun="a picture",
        error=InvalidImage,
        server=server,
        max_bytes=settings.max_bytes,
        timeout_s=settings.timeout_s,
        memory=BASE_MEMORY + PICTURE_BYTES * settings.max_pixels,
        max_output=BASE_OUTPUT + 4 * settings.max_pixels,
        arguments={"max_pixels": settings.max_pixels},
    )


def _sound(settings: MediaSettings, server: ForkServer) -> _Work:
    return _Work(
        noun="a sound",
        error=InvalidMedia,
        server=server,
        max_bytes=settings.max_bytes,
        timeout_s=settings.timeout_s,
        memory=BASE_MEMORY * 2,
        max_output=settings.max_decoded_bytes,
        arguments={"film": False, "max_streams": settings.max_streams, "max_seconds": settings.max_audio_s},
    )


def _film(settings: MediaSettings, server: ForkServer) -> _Work:
    bounds = {
        "max_streams": settings.max_streams,
        "max_seconds": settings.max_video_s,
        "max_frames": settings.max_video_frames,
        "max_pixels": settings.max_video_pixels,
    }
    memory = BASE_MEMORY * 2 + FILM_BYTES * settings.max_video_pixels
    sound = _sound(settings, server)
    return replace(sound, noun="a film", memory=memory, arguments={"film": True, **bounds})


def _told(work: _Work, **arguments: float | None) -> _Work:
    """The work with further arguments, without those that are None."""
    more = {name: value for name, value in arguments.items() if value is not None}
    return replace(work, arguments={**work.arguments, **more})


async def _decode(upload: Upload, field: str, part: Path, work: _Work) -> str:
    source = await to_thread.run_sync(upload.spool.fileno)
    with part.open("xb") as target:
        try:
            ended = await work.server.run(work.order(upload), source, target.fileno(), work.timeout_s)
        except TimeoutError:
            raise work.error(field, f"cannot be decoded within {work.timeout_s:g} s") from None
    return _checked(ended, field, work)


def _checked(ended: Ended, field: str, work: _Work) -> str:
    """What the fork says of its result.

    Raises:
        BadField: the file is at fault.
        OSError: it is not.
    """
    words = ended.output.decode(errors="replace").strip()
    if ended.status == REFUSED:
        raise work.error(field, clean(words, 200))
    if ended.status < 0:
        raise work.error(field, "takes too much time or memory to decode, or is damaged")
    if ended.status == WRITE_FAILED and words.isdigit():
        raise OSError(int(words), os.strerror(int(words)))
    if ended.status != 0:
        raise OSError(f"the decoder of references ended with status {ended.status}")
    return words


def _part_of(target: Path) -> Path:
    return target.absolute().with_name(f"{target.name}.part")


def _named(reference: Named, field: str, spool: Spool) -> Upload:
    if reference.url is None:
        raise BadField(field, f"file_id {shown(reference.file_id)} is not known here; {_WAYS}")
    if not is_data_uri(reference.url):
        raise BadField(field, f"{shown(reference.url)} is not allowed; {_WAYS}")
    return spool.add(read_data_uri(reference.url))
