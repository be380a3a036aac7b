"""An MP4's own index, compared with the file that it is in and with what was to be made."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from encoding.base import OutputSpec
from encoding.boxes import Box, boxes, delays
from encoding.errors import EncodingError

if TYPE_CHECKING:
    from av.container import InputContainer

_LAYOUT = (b"ftyp", b"moov", b"mdat")


def picture_times(container: InputContainer, path: Path, spec: OutputSpec) -> list[int]:
    """When each picture is shown, in units of its track's clock, in the order of the samples.

    The index stands in front, its samples fill the media data without a gap, and nothing follows them.

    Raises:
        EncodingError: it is not so.
    """
    pictures = [
        (entry.pos, entry.size, entry.timestamp) for entry in container.streams.video[0].index_entries
    ]
    sounds = [(entry.pos, entry.size) for each in container.streams.audio for entry in each.index_entries]
    with path.open("rb") as file:
        parts = list(boxes(file))
        later = list(islice(delays(file), len(pictures) + 1))
    samples = [(position, size) for position, size, _ in pictures] + sounds
    _check_filled(_media_of(parts, path.stat().st_size, spec), samples, spec)
    if len(later) not in (0, len(pictures)):
        counts = (
            f"delays for {'fewer' if len(later) < len(pictures) else 'more'} than {len(pictures)} pictures"
        )
        raise EncodingError(f"{spec.path.name}: its index has {counts}")
    delayed = zip(pictures, later or [0] * len(pictures), strict=True)
    return [time + delay for (_, _, time), delay in delayed]


def _media_of(parts: list[Box], size: int, spec: OutputSpec) -> Box:
    """The box with the samples, behind the index, at the end."""
    kinds = tuple(box.kind for box in parts if box.kind != b"free")
    if kinds != _LAYOUT:
        told = " ".join(kind.decode("latin-1") for kind in kinds) or "nothing"
        raise EncodingError(f"{spec.path.name}: consists of {told}, ftyp moov mdat expected")
    if parts[-1].end != size:
        raise EncodingError(f"{spec.path.name}: its boxes end at byte {parts[-1].end}, {size} expected")
    return next(box for box in parts if box.kind == b"mdat")


def _check_filled(media: Box, samples: list[tuple[int, int]], spec: OutputSpec) -> None:
    """Each sample begins where another ends."""
    end = media.contents
    for position, size in sorted(samples):
        if position != end:
            raise EncodingError(f"{spec.path.name}: a sample at byte {position}, {end} expected")
        end += size
    if end != media.end:
        raise EncodingError(f"{spec.path.name}: its samples end at byte {end}, {media.end} expected")
