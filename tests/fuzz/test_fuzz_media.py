"""Damaged sounds and films: each is stored or refused, and none is any trouble of ours."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

from server.errors import InvalidMedia
from server.references import References
from server.sections import ImageSettings, MediaSettings
from server.spool import Spool
from tests.fuzz.mutations import damaged
from tests.server.films import film, sound
from tests.server.pictures import SPOOLS

CASES = 100
GOOD: tuple[Callable[[], bytes], ...] = (
    partial(film, audio="aac"),
    partial(film, "webm", "libvpx-vp9", audio="libopus"),
    partial(film, "matroska", "mpeg4", audio="aac"),
    partial(sound, "mp3", "libmp3lame"),
    partial(sound, "flac", "flac"),
    partial(sound, "ogg", "libopus"),
    partial(sound, "wav", "pcm_s16le"),
)


async def test_each_is_stored_or_refused(tmp_path: Path) -> None:
    """By decoders in C that are handed what nobody has written."""
    draw = Random(20261129)  # noqa: S311 - repeatable damage
    files = [make() for make in GOOD]
    references = References(ImageSettings(), MediaSettings(timeout_s=120), SPOOLS)
    refused = 0
    for number in range(CASES):
        store = draw.choice((references.store_audio, references.store_video))
        with Spool(SPOOLS) as spool:
            try:
                await store(spool.add(damaged(draw.choice(files), draw)), "file", tmp_path / str(number))
            except InvalidMedia:
                refused += 1
    await references.close()
    assert _files(tmp_path) == CASES - refused
    assert CASES / 10 < refused < CASES


def _files(folder: Path) -> int:
    return len(list(folder.iterdir()))
