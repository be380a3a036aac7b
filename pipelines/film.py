"""Films of references: Matroska with lossless FFV1, the one kind that pipelines are given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path

import av
from av.error import FFmpegError
from PIL import Image

from pipelines.errors import InvalidParams

_ROUNDED = Fraction(1, 1000)
"""Seconds by which Matroska's times, whole milliseconds, may be late."""


def pictures_at(path: Path, times: Iterable[Fraction], field: str = "video") -> Iterator[Image.Image | None]:
    """What the film shows at each of `times`, seconds in rising order; its first picture before its start.

    None after its end. Reads as far as is asked for.

    Raises:
        InvalidParams: on `field`: it cannot be read.
    """
    try:
        with av.open(str(path), "r") as container:
            stream = container.streams.video[0]
            last_s = 1 / (stream.average_rate or Fraction(25))
            frames = container.decode(stream)
            now, following = next(frames, None), next(frames, None)
            for time in times:
                while following is not None and _time(following) <= time + _ROUNDED:
                    now, following = following, next(frames, None)
                over = now is None or (following is None and time + _ROUNDED >= _time(now) + last_s)
                yield None if over or now is None else now.to_image()  # type: ignore[no-untyped-call]
    except (FFmpegError, IndexError) as error:
        raise InvalidParams(field, f"{path.name}: cannot be read ({type(error).__name__})") from None


def _time(frame: av.VideoFrame) -> Fraction:
    if frame.pts is None or frame.time_base is None:
        return Fraction(0)
    return frame.pts * frame.time_base
