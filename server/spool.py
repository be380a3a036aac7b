"""What a client uploads, kept out of memory: one nameless file for each request, gone when the request is."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import SpooledTemporaryFile
from types import TracebackType
from typing import IO, cast

MEMORY_BYTES = 2**18
"""What a request may keep in memory; with more, all of it is on disk."""
STEP = 2**20
"""Bytes that are read or copied at a time."""


class Spool:
    """Bytes of one request, appended one after the other. Not for several threads at once.

    On disk they have no name: nothing is left of them when the process ends, however it ends.
    """

    def __init__(self, folder: Path) -> None:
        """`folder` must exist by the time that more than `MEMORY_BYTES` are written."""
        self._file = SpooledTemporaryFile(max_size=MEMORY_BYTES, dir=str(folder))  # noqa: SIM115 - see `close`
        self.size = 0

    def write(self, data: bytes | memoryview) -> None:
        """Append.

        Raises:
            OSError: the disk is full, or the folder is not there.
        """
        self._file.seek(self.size)
        self._file.write(data)
        self.size += len(data)

    def add(self, data: bytes) -> Upload:
        """Append a whole file."""
        start = self.size
        self.write(data)
        return self.since(start)

    def copy_of(self, path: Path) -> Upload:
        """Append what a file on this machine holds."""
        start = self.size
        with path.open("rb") as source:
            self._file.seek(start)
            shutil.copyfileobj(source, cast(IO[bytes], self._file), STEP)
        self.size = self._file.tell()
        return self.since(start)

    def since(self, start: int) -> Upload:
        """All that was written from `start` on."""
        return Upload(self, start, self.size - start)

    def read(self, start: int, size: int) -> bytes:
        """`size` bytes from `start` on."""
        self._file.seek(start)
        return self._file.read(size)

    def fileno(self) -> int:
        """A descriptor of all the bytes, which are on disk from then on. To be read by position only."""
        number = self._file.fileno()
        self._file.flush()
        return number

    def close(self) -> None:
        """Forget the bytes."""
        self._file.close()

    def __enter__(self) -> Spool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Upload:
    """A file that a client sent: `size` bytes of its request's spool. Of no use once that is closed."""

    # Not a dataclass: pydantic would make a dictionary of it.
    __slots__ = ("size", "spool", "start")

    def __init__(self, spool: Spool, start: int, size: int) -> None:
        self.spool = spool
        self.start = start
        self.size = size

    def read(self) -> bytes:
        """All of it, in memory."""
        return self.spool.read(self.start, self.size)

    def sha256(self) -> str:
        """What tells files apart, in hexadecimal digits."""
        digest = hashlib.sha256()
        for piece in self._pieces():
            digest.update(piece)
        return digest.hexdigest()

    def _pieces(self) -> Iterator[bytes]:
        for start in range(0, self.size, STEP):
            yield self.spool.read(self.start + start, min(STEP, self.size - start))
