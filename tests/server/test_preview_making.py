"""Previews of real files, drawn by real child processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import psutil
import pytest
from anyio import to_thread
from PIL import Image

from encoding.previews import PREVIEWS
from server import children
from server import previews as module
from server.artifacts import JobFolders
from server.errors import FileMissing, PreviewFailed
from server.jobs import Job, StoredFile
from server.previews import Previews
from tests.encoding.clips import describe, encode, smooth
from tests.server.logged import lines
from tests.server.scripted import new_job

THUMBNAIL, SPRITESHEET = PREVIEWS["thumbnail"], PREVIEWS["spritesheet"]


@pytest.fixture
def folders(tmp_path: Path) -> JobFolders:
    opened = JobFolders(tmp_path)
    opened.open()
    return opened


@pytest.fixture
async def previews(folders: JobFolders) -> AsyncIterator[Previews]:
    made = Previews(folders, 600)
    yield made
    await made.close()
    assert drawing() == set()


def drawing() -> set[int]:
    """The processes that draw now."""
    found = set()
    for process in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess):
            if "encoding.preview_child" in process.cmdline():
                found.add(process.pid)
    return found


@dataclass
class Drawn:
    """Processes that were started to draw: how many are there now, were at most, and in all."""

    now: int = 0
    most: int = 0
    total: int = 0


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Drawn:
    """Counts where they are started and ended: who looks at processes from time to time misses some."""
    count, start, end = Drawn(), children._start, children._end

    async def started(*arguments: Any) -> Process:
        process = await start(*arguments)
        count.now, count.total = count.now + 1, count.total + 1
        count.most = max(count.most, count.now)
        return process

    async def ended(process: Process) -> None:
        await end(process)
        count.now -= 1

    monkeypatch.setattr(children, "_start", started)
    monkeypatch.setattr(children, "_end", ended)
    return count


def finished(folders: JobFolders, frames: int = 9, width: int = 48, height: int = 32) -> Job:
    """A job of two equal videos, as it is when they are completed."""
    job = new_job(num_frames=frames, width=width, height=height)
    folder = folders.create(job.id)
    clip = smooth(frames, height, width)
    first, second = folder / "video.mp4", folder / "video-1.mp4"
    encode(describe(first, clip, Fraction(16)), clip)
    second.write_bytes(first.read_bytes())
    files = tuple(StoredFile(path.name, path.stat().st_size) for path in (first, second))
    return replace(job, files=files, completed_us=1)


def damage(folders: JobFolders, job: Job) -> None:
    folders.file(job.id, "video.mp4").write_bytes(b"\0" * 5000)


def remains(folder: Path) -> list[str]:
    """Every file and folder below, by name; the folder of a job as `job`."""
    return sorted("job" if path.is_dir() else path.name for path in folder.rglob("*"))


async def test_a_preview_is_made_once(previews: Previews, folders: JobFolders, drawn: Drawn) -> None:
    """However many ask at once, by one process; and not again when it is asked for later."""
    job = finished(folders)
    (path,) = set(await asyncio.gather(*(previews.path(job, 0, SPRITESHEET) for _ in range(8))))
    made = path.stat()
    assert await previews.path(job, 0, SPRITESHEET) == path
    assert drawn == Drawn(now=0, most=1, total=1)
    assert path.stat() == made
    with Image.open(path) as picture:
        assert (picture.format, picture.size) == ("JPEG", (5 * 48, 2 * 32))


async def test_each_output_has_its_own(previews: Previews, folders: JobFolders) -> None:
    """Beside the videos, in the job's folder, which holds nothing else."""
    job = finished(folders)
    for index in (0, 1):
        for preview in PREVIEWS.values():
            await previews.path(job, index, preview)
    names = ["spritesheet-1.jpg", "spritesheet.jpg", "thumbnail-1.webp", "thumbnail.webp"]
    folder = folders.file(job.id, "video.mp4").parent
    assert remains(folder) == [*names, "video-1.mp4", "video.mp4"]


async def test_few_are_made_side_by_side(previews: Previews, folders: JobFolders, drawn: Drawn) -> None:
    """The others wait for their turn."""
    jobs = [finished(folders) for _ in range(2)]
    pictures = await asyncio.gather(
        *(previews.path(job, index, THUMBNAIL) for job in jobs for index in (0, 1)),
        *(previews.path(job, 0, SPRITESHEET) for job in jobs),
    )
    assert len(set(pictures)) == 6
    assert 0 < drawn.most <= module.CHILDREN
    assert (drawn.now, drawn.total) == (0, 6)


async def test_a_preview_has_a_deadline(
    folders: JobFolders, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What takes longer is given up; no process and no part of a file stay."""
    job = finished(folders)
    hasty = Previews(folders, 0.01)
    with pytest.raises(PreviewFailed, match="its thumbnail cannot be made"):
        await hasty.path(job, 0, THUMBNAIL)
    assert drawing() == set()
    assert remains(tmp_path) == ["job", "video-1.mp4", "video.mp4"]
    assert "not drawn within 0.01 s" in lines(caplog)[-1]


async def test_a_damaged_video_has_no_preview(
    previews: Previews, folders: JobFolders, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says why; the client learns no more than that. The next request tries again."""
    job = finished(folders)
    damage(folders, job)
    for _ in range(2):
        with pytest.raises(PreviewFailed) as caught:
            await previews.path(job, 0, THUMBNAIL)
    assert caught.value.message == f"video {job.id}: its thumbnail cannot be made"
    assert sum("InvalidDataError" in line for line in lines(caplog)) == 2
    assert remains(tmp_path) == ["job", "video-1.mp4", "video.mp4"]


async def test_a_video_that_is_gone(
    previews: Previews, folders: JobFolders, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Says so; that is nothing for the log."""
    job = finished(folders)
    folders.remove(job.id)
    with pytest.raises(FileMissing):
        await previews.path(job, 0, THUMBNAIL)
    assert (remains(tmp_path), caplog.text) == ([], "")


async def test_a_video_that_is_deleted_meanwhile(
    previews: Previews, folders: JobFolders, tmp_path: Path
) -> None:
    """Its preview comes to nothing, at whatever moment that happens."""
    for delay in (0.0, 0.1, 0.2, 0.3, 0.4):
        job = finished(folders)
        asked = asyncio.ensure_future(previews.path(job, 0, THUMBNAIL))
        while not drawing() and not asked.done():
            await asyncio.sleep(0.001)
        await asyncio.sleep(delay)
        await to_thread.run_sync(folders.remove, job.id)
        with contextlib.suppress(FileMissing):
            await asked
        assert remains(tmp_path) == []


async def test_a_client_that_goes_away_takes_nothing_from_the_others(
    previews: Previews, folders: JobFolders, drawn: Drawn
) -> None:
    """The one who waits with it gets the picture, made by the same process."""
    job = finished(folders)
    impatient, patient = (asyncio.ensure_future(previews.path(job, 0, THUMBNAIL)) for _ in range(2))
    while not drawn.total:
        await asyncio.sleep(0.001)
    impatient.cancel()
    assert (await patient).exists()
    assert drawn.total == 1


async def test_closing_ends_the_processes(folders: JobFolders, tmp_path: Path) -> None:
    """And who waits is told; nothing but the videos is left."""
    job = finished(folders)
    video = folders.file(job.id, "video.mp4")
    video.unlink()
    os.mkfifo(video)  # a film that never comes to its end
    made = Previews(folders, 600)
    asked = asyncio.ensure_future(made.path(job, 0, THUMBNAIL))
    with await to_thread.run_sync(video.open, "wb"):  # returns when it is read
        assert drawing() != set()
        await made.close()
    assert drawing() == set()
    assert (await asyncio.gather(asked, return_exceptions=True))[0].__class__ is asyncio.CancelledError
    assert remains(tmp_path) == ["job", "video-1.mp4", "video.mp4"]


def test_a_folder_that_was_half_deleted_is_gone_at_the_next_start(
    folders: JobFolders, tmp_path: Path
) -> None:
    """A server that was killed in the middle of a deletion leaves nothing for good."""
    left = tmp_path / f".{new_job().id}.00000000.removed"
    left.mkdir()
    (left / "video.mp4").touch()
    folders.create("video_kept")
    folders.open()
    assert [path.name for path in tmp_path.iterdir()] == ["video_kept"]
