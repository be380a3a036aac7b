"""Where finished files and uploads live: one folder per job, named by its id."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from pathlib import Path

from encoding.formats import FORMATS


class JobFolders:
    """Folders of jobs below one root. No name that a client chose ever becomes part of a path."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()

    def open(self) -> None:
        self._root.mkdir(parents=True, exist_ok=True)

    def create(self, job_id: str) -> Path:
        """The job's folder, which exists then."""
        folder = self._root / job_id
        folder.mkdir(exist_ok=True)
        return folder

    def video(self, job_id: str, index: int, format_name: str) -> Path:
        """The file of the job's output number `index`."""
        name = "video" if index == 0 else f"video-{index}"
        return self._root / job_id / f"{name}{FORMATS[format_name].suffix}"

    def file(self, job_id: str, name: str) -> Path:
        """A finished file by the name that the job's record holds."""
        return self._root / job_id / name

    def remove(self, job_id: str) -> None:
        """Delete the job's folder and all in it; nothing happens where there is none."""
        shutil.rmtree(self._root / job_id, ignore_errors=True)

    def sweep(self, keep: Collection[str]) -> None:
        """Remove the folders of all jobs but `keep`: what a killed server left behind."""
        for folder in self._root.glob("video_*"):
            if folder.name not in keep:
                self.remove(folder.name)
