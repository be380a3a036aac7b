"""Where finished files and uploads live: one folder per job, named by its id."""

from __future__ import annotations

import contextlib
import secrets
import shutil
from collections.abc import Collection
from pathlib import Path

from encoding.formats import FORMATS
from encoding.previews import Preview

_REMOVED = ".removed"
"""Suffix of a folder that is being deleted."""


class JobFolders:
    """Folders of jobs below one root. No name that a client chose ever becomes part of a path."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()

    def open(self) -> None:
        """Make the root, and delete what an earlier server began to delete."""
        self._root.mkdir(parents=True, exist_ok=True)
        for folder in self._root.glob(f".*{_REMOVED}"):
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

    def remove(self, job_id: str) -> None:
        """Delete the job's folder and all in it; nothing happens where there is none."""
        # Under another name nobody who still draws a preview can put a file into it meanwhile.
        removed = self._root / f".{job_id}.{secrets.token_hex(4)}{_REMOVED}"
        with contextlib.suppress(FileNotFoundError):
            (self._root / job_id).rename(removed)
            shutil.rmtree(removed, ignore_errors=True)

    def sweep(self, keep: Collection[str]) -> None:
        """Remove the folders of all jobs but `keep`: what a killed server left behind."""
        for folder in self._root.glob("video_*"):
            if folder.name not in keep:
                self.remove(folder.name)


def _number(index: int) -> str:
    return "" if index == 0 else f"-{index}"
