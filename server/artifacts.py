"""Where finished files and uploads live: one folder per job, named by its id."""

from __future__ import annotations

import contextlib
import logging
import re
import secrets
import shutil
import threading
from collections.abc import Collection
from pathlib import Path

from encoding.formats import FORMATS
from encoding.previews import Preview

_REMOVED = ".removed"
"""Suffix of a folder that is being deleted."""
_ID = "video_[0-9a-f]{32}"
_FOLDER = re.compile(_ID)
_LEFTOVER = re.compile(rf"\.{_ID}\.[0-9a-f]+{re.escape(_REMOVED)}")
_PART = ".part"
"""Suffix of a file that is being written; no finished one has it."""

logger = logging.getLogger("reelserve.files")


class JobFolders:
    """Folders of jobs below one root. No name that a client chose ever becomes part of a path.

    What does not have the name of a job is not ours and is never touched. Methods may be called from any
    thread; those that change the disk are not for the event loop.
    """

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        self._bytes: dict[str, int] = {}
        self._lock = threading.Lock()

    @property
    def held_bytes(self) -> int:
        """What all folders hold, each as it was when it was last measured."""
        with self._lock:
            return sum(self._bytes.values())

    @property
    def free_bytes(self) -> int:
        """Room on the disk of the root. Not for the event loop."""
        return shutil.disk_usage(self._root).free

    def bytes_of(self, job_id: str) -> int:
        """What the job's folder held when it was last measured."""
        return self._bytes.get(job_id, 0)

    def holds(self, job_id: str) -> bool:
        """Whether the job's folder was there when it was last measured, and has not been removed since."""
        return job_id in self._bytes

    def open(self) -> None:
        """Make the root, and delete what an earlier server began to delete."""
        self._root.mkdir(parents=True, exist_ok=True)
        for folder in self._root.iterdir():
            if _LEFTOVER.fullmatch(folder.name):
                shutil.rmtree(folder, ignore_errors=True)

    def create(self, job_id: str) -> Path:
        """The job's folder, which exists then."""
        folder = self._root / job_id
        folder.mkdir(exist_ok=True)
        return folder

    def video(self, job_id: str, index: int, format_name: str) -> Path:
        """The file of the job's output number `index`."""
        return self._root / job_id / f"video{_number(index)}{FORMATS[format_name].suffix}"

    def file(self, job_id: str, name: str) -> Path:
        """A finished file by the name that the job's record holds."""
        return self._root / job_id / name

    def preview(self, job_id: str, index: int, preview: Preview) -> Path:
        """The file of a preview of the job's output number `index`."""
        return self._root / job_id / f"{preview.name}{_number(index)}{preview.suffix}"

    def ids(self) -> list[str]:
        """The jobs that have a folder."""
        return [entry.name for entry in self._root.iterdir() if _FOLDER.fullmatch(entry.name)]

    def measure(self, job_id: str) -> None:
        """Count what the job's folder holds now."""
        sizes = [_size(path) for path in (self._root / job_id).glob("*")]
        with self._lock:
            if (self._root / job_id).is_dir():
                self._bytes[job_id] = sum(sizes)

    def settle(self, job_id: str) -> None:
        """Delete what a killed worker left half written in a completed job's folder, and count the rest."""
        self._drop(job_id, f".video*{_PART}")  # a preview may be drawn just now
        self.measure(job_id)

    def remove(self, job_id: str) -> None:
        """Delete the job's folder and all in it; nothing happens where there is none."""
        folder = self._root / job_id
        # Under another name nobody who still draws a preview can put a file into it meanwhile.
        removed = self._root / f".{job_id}.{secrets.token_hex(4)}{_REMOVED}"
        try:
            folder.rename(removed)
        except OSError:  # there is none, or the disk is too full for another name
            removed = folder
        shutil.rmtree(removed, ignore_errors=True)
        if removed.exists():
            logger.error("files could not be deleted", extra={"job_id": job_id})
        with self._lock:
            if not folder.exists():
                self._bytes.pop(job_id, None)

    def sweep(self, keep: Collection[str]) -> int:
        """Make good what a killed server left behind, before anything is written: returns how many folders
        were removed.

        Those of all jobs but `keep` go; in the others all that is half written goes, and they are counted.
        """
        others = [job_id for job_id in self.ids() if job_id not in keep]
        for job_id in others:
            self.remove(job_id)
        for job_id in self.ids():
            try:
                self._drop(job_id, f"*{_PART}")
                self.measure(job_id)
            except OSError as error:  # no reason not to start
                logger.error(
                    "files cannot be counted", extra={"job_id": job_id, "error": type(error).__name__}
                )
        return len(others)

    def _drop(self, job_id: str, pattern: str) -> None:
        for path in (self._root / job_id).glob(pattern):
            with contextlib.suppress(OSError):
                path.unlink()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # a part file that just got its name, or was given up
        return 0


def _number(index: int) -> str:
    return "" if index == 0 else f"-{index}"
