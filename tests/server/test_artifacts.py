"""Folders of jobs: what is swept, what is counted, and what is never touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from server.artifacts import JobFolders
from server.jobs import new_job_id


@pytest.fixture
def folders(tmp_path: Path) -> JobFolders:
    opened = JobFolders(tmp_path / "artifacts")
    opened.open()
    return opened


def fill(folders: JobFolders, job_id: str, **sizes: int) -> Path:
    """Files in a job's folder; `__` in a name stands for a dot."""
    folder = folders.create(job_id)
    for name, size in sizes.items():
        (folder / name.replace("__", ".")).write_bytes(bytes(size))
    return folder


def test_what_no_job_has_is_swept(folders: JobFolders, tmp_path: Path) -> None:
    """Folders of other jobs go, and so does what was half written beside finished files."""
    kept, lost = new_job_id(), new_job_id()
    folder = fill(folders, kept, video__mp4=5, __video__mp4__1a2b__part=7, __thumbnail__webp__1a2b__part=7)
    fill(folders, lost, video__mp4=5)
    assert folders.sweep({kept}) == 1
    assert [path.name for path in (tmp_path / "artifacts").iterdir()] == [kept]
    assert [path.name for path in folder.iterdir()] == ["video.mp4"]
    assert folders.held_bytes == 5


def test_what_is_not_ours_stays(folders: JobFolders, tmp_path: Path) -> None:
    """On a shared file system lie things of others: only the form of our own names is ever touched."""
    names = [
        "video_holiday",
        "video_" + "G" * 32,
        "video_" + "a" * 33,
        ".snapshot.removed",
        "lost+found",
        f".{new_job_id()}.removed",
    ]
    for name in names:
        (tmp_path / "artifacts" / name).mkdir()
    folders.open()
    assert folders.sweep(()) == 0
    assert {path.name for path in (tmp_path / "artifacts").iterdir()} == set(names)


def test_a_deletion_that_was_cut_off_is_finished(folders: JobFolders, tmp_path: Path) -> None:
    """A folder that was renamed to be deleted is gone when the next server opens the root."""
    half = tmp_path / "artifacts" / f".{new_job_id()}.0a1b2c3d.removed"
    half.mkdir()
    (half / "video.mp4").write_bytes(b"rest")
    folders.open()
    assert not half.exists()


def test_bytes_are_counted(folders: JobFolders) -> None:
    """Of each folder as it was when it was last measured, previews included, and none after it is removed."""
    first, second = new_job_id(), new_job_id()
    fill(folders, first, video__mp4=100, thumbnail__webp=10)
    fill(folders, second, video__mp4=1000)
    assert folders.held_bytes == 0
    folders.measure(first)
    folders.measure(second)
    assert (folders.bytes_of(first), folders.held_bytes) == (110, 1110)
    fill(folders, first, spritesheet__jpg=5)
    folders.measure(first)
    assert folders.held_bytes == 1115
    folders.remove(second)
    folders.remove(second)
    assert (folders.held_bytes, folders.holds(second)) == (115, False)
    folders.measure(second)
    assert not folders.holds(second)


def test_a_preview_that_is_being_drawn_is_not_disturbed(folders: JobFolders) -> None:
    """Only what the worker left is deleted when a job has ended."""
    job_id = new_job_id()
    parts = {
        "__video__mp4__1a2b__part": 7,
        "__video-1__mp4__1a2b__part": 7,
        "__thumbnail__webp__1a2b__part": 3,
    }
    folder = fill(folders, job_id, video__mp4=5, **parts)
    folders.settle(job_id)
    assert {path.name for path in folder.iterdir()} == {"video.mp4", ".thumbnail.webp.1a2b.part"}
    assert folders.held_bytes == 8
