"""Small real file systems for tests, to be filled up and made read-only."""

from __future__ import annotations

import contextlib
import functools
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest


def _mount(path: Path, options: str) -> bool:
    if shutil.which("mount") is None:
        return False
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _unmount(path: Path) -> None:
    # Lazily: a failed test may have left a file open.
    subprocess.run(["umount", "-l", str(path)], capture_output=True, check=True)


@functools.cache
def may_mount() -> bool:
    """Whether this process may mount a file system; tried once."""
    with tempfile.TemporaryDirectory() as folder:
        if not _mount(Path(folder), "size=1m"):
            return False
        _unmount(Path(folder))
        return True


@dataclass(frozen=True, slots=True)
class Disk:
    """A file system of its own at `path`."""

    path: Path

    @property
    def ballast(self) -> Path:
        """What fills it."""
        return self.path / "ballast"

    def fill(self) -> None:
        """Leave no room at all."""
        with self.ballast.open("ab", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(4096))

    def clear(self) -> None:
        """Give the room back."""
        self.ballast.unlink()

    def read_only(self, whether: bool) -> None:
        """Refuse all writes, or no longer."""
        options = "remount,ro" if whether else "remount,rw"
        subprocess.run(["mount", "-o", options, str(self.path)], capture_output=True, check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """An empty disk of 16 MiB."""
    path = tmp_path / "disk"
    path.mkdir()
    assert _mount(path, "size=16m")
    try:
        yield Disk(path)
    finally:
        _unmount(path)
