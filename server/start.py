"""What ends a start, wherever it is noticed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class StartError(RuntimeError):
    """A command cannot do its work; the message says why, and is all that is printed."""


@contextmanager
def usable(setting: str, path: Path) -> Iterator[None]:
    """Make and open what `setting` names, at `path`, in the block.

    Raises:
        StartError: the system refused it.
    """
    try:
        yield
    except OSError as error:
        raise StartError(f"{setting}: cannot use {path}: {error.strerror}") from None
