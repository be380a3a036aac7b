"""A file that appears under its name only when it is whole."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path
from typing import BinaryIO

from encoding.errors import translate

_BEHIND_BYTES = 2**20
"""Written in one go: less would be many small writes."""


class PartFile:
    """`file` is open for reading and writing beside `path`, which `commit` gives it.

    Its own name is `.<name>.<random>.part`: one that a killed process left is never taken for another's.

    Raises:
        StorageFailed: the folder is missing, read-only or full.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
        try:
            self.file: BinaryIO = self.temporary.open("w+b")
        except OSError as error:
            raise translate(error, f"creating {path.name}") from error
        self._begun = 0

    def write_behind(self) -> None:
        """Have the disk begin with what was written since, so that `sync` has little to wait for."""
        self.file.flush()
        end = self.file.tell()
        if end - self._begun >= _BEHIND_BYTES:
            with contextlib.suppress(OSError):  # some file systems know nothing of it
                os.posix_fadvise(self.file.fileno(), self._begun, end - self._begun, os.POSIX_FADV_DONTNEED)
            self._begun = end

    def flush(self) -> None:
        """Let others who open the file see what was written."""
        self.file.flush()

    def sync(self) -> None:
        """Put what was flushed on the disk."""
        os.fsync(self.file.fileno())

    def commit(self) -> None:
        """Give the file its name, in place of any that had it."""
        self.temporary.replace(self.path)

    def sync_name(self) -> None:
        """Put the name on the disk too, where the file system can do that."""
        with contextlib.suppress(OSError):
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def discard(self) -> None:
        """Remove the file; its open descriptor stays usable. Idempotent."""
        with contextlib.suppress(OSError):
            self.temporary.unlink()

    def close(self) -> None:
        """Close the descriptor, whatever the disk says to the bytes that were still buffered. Idempotent."""
        with contextlib.suppress(OSError):
            self.file.close()
