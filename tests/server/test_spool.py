from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from server.spool import MEMORY_BYTES, Spool, Upload

SIZES = [0, 1, MEMORY_BYTES, MEMORY_BYTES + 1, 3_000_000]


@pytest.mark.parametrize("size", SIZES)
def test_uploads_lie_one_after_the_other(size: int, tmp_path: Path) -> None:
    """Each is exactly its own bytes, in memory or on disk, whatever comes later."""
    data = [os.urandom(size), b"between", os.urandom(size)]
    with Spool(tmp_path) as spool:
        uploads = [spool.add(piece) for piece in data]
        assert [upload.read() for upload in uploads] == data
        assert [upload.sha256() for upload in uploads] == [
            hashlib.sha256(piece).hexdigest() for piece in data
        ]
        assert spool.size == sum(map(len, data))


def test_a_file_is_copied_in(tmp_path: Path) -> None:
    """Between what was there and what comes after it."""
    source = tmp_path / "picture"
    source.write_bytes(os.urandom(2_500_000))
    with Spool(tmp_path) as spool:
        first, copied, last = spool.add(b"first"), spool.copy_of(source), spool.add(b"last")
        assert (first.read(), copied.read(), last.read()) == (b"first", source.read_bytes(), b"last")


def test_the_descriptor_reads_what_was_written(tmp_path: Path) -> None:
    """For another process: by position, also of what was in memory until then."""
    with Spool(tmp_path) as spool:
        spool.add(b"before")
        upload = spool.add(b"a picture")
        assert os.pread(spool.fileno(), upload.size, upload.start) == b"a picture"


def _open_files(folder: Path) -> list[str]:
    """The files below `folder` that this process has open, with or without a name."""
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.append(str(entry.readlink()))
    return [path for path in found if path.startswith(str(folder))]


def test_nothing_has_a_name(tmp_path: Path) -> None:
    """On disk from a certain size on, in no folder, and gone with the spool."""
    with Spool(tmp_path) as spool:
        spool.write(bytes(MEMORY_BYTES))
        assert _open_files(tmp_path) == []
        spool.write(b"x")
        assert len(_open_files(tmp_path)) == 1
        assert list(tmp_path.iterdir()) == []
    assert _open_files(tmp_path) == []


def test_nothing_outlives_a_killed_process(tmp_path: Path) -> None:
    """`kill -9` in the middle of an upload leaves no file behind."""
    program = (
        "import sys, time; from pathlib import Path; from server.spool import Spool\n"
        "spool = Spool(Path(sys.argv[1])); spool.write(bytes(5_000_000)); print('written', flush=True)\n"
        "time.sleep(600)"
    )
    child = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE)
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"written\n"
        child.send_signal(signal.SIGKILL)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_an_error_of_the_system(tmp_path: Path) -> None:
    """As a full disk is: with its number, for those who answer it."""
    with Spool(tmp_path / "missing") as spool, pytest.raises(FileNotFoundError):
        spool.write(bytes(MEMORY_BYTES + 1))


def test_a_closed_spool_has_nothing(tmp_path: Path) -> None:
    """A file that is used after its request would be a mistake of ours."""
    with Spool(tmp_path) as spool:
        upload: Upload = spool.add(b"x")
    with pytest.raises(ValueError, match="closed"):
        upload.read()
