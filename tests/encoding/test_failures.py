"""What the disk and the encoder refuse is told in our own words, with its cause, and leaves nothing."""

from __future__ import annotations

import errno
import gc
import resource
import shutil
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import BinaryIO

import av
import pytest
import torch

from encoding.base import OutputSpec, Sink
from encoding.encoder import find_encoder
from encoding.errors import (
    EncoderMissing,
    EncodingError,
    InvalidOption,
    InvalidSpec,
    StorageFailed,
    translate,
)
from encoding.formats import open_sink
from encoding.mp4 import VideoWriter
from encoding.part import PartFile
from encoding.session import Session, start
from tests.encoding.clips import SUFFIXES, chunks, describe, noise, smooth


class FullDisk(PartFile):
    """A part file whose bytes go to a device that is always full."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.file.close()
        self.file = Path("/dev/full").open("w+b")  # noqa: SIM115 closed by whoever closes the part file


@pytest.fixture
def small_files() -> Iterator[None]:
    """No file may grow beyond 100 kB, as the system sees it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def encoders() -> int:
    """How many codec contexts are alive."""
    return sum(type(held) is av.VideoCodecContext for held in gc.get_objects())


def write_all(sink: Sink, clip: torch.Tensor) -> None:
    """In the block of a worker, slow enough for errors of the thread to show at a later write."""
    with sink:
        for frames in chunks(clip, 4):
            sink.write(frames)
            time.sleep(0.01)
    sink.close()


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("folder", ["missing", "file", "/proc/self"])
def test_a_folder_that_takes_no_file_refuses_at_once(tmp_path: Path, suffix: str, folder: str) -> None:
    """Opening the sink fails for a missing folder, for a file in its place and for a read-only system."""
    (tmp_path / "file").write_bytes(b"")
    clip = smooth(4, 32, 48)
    with pytest.raises(StorageFailed, match=f"clip{suffix}") as raised:
        open_sink(describe(tmp_path / folder / f"clip{suffix}", clip))
    assert isinstance(raised.value.__cause__, OSError)
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


@pytest.mark.parametrize("suffix", [".mp4", ".webm", ".safetensors"])
def test_a_file_that_may_not_grow_fails_the_sink(tmp_path: Path, suffix: str, small_files: None) -> None:
    """The error comes at a later call and in the result; the part file is gone."""
    clip = noise(40, 64, 96)
    sink = open_sink(describe(tmp_path / f"clip{suffix}", clip))
    with pytest.raises(StorageFailed, match=f"clip{suffix}") as raised:
        write_all(sink, clip)
    assert isinstance(raised.value.__cause__, OSError)
    assert raised.value.__cause__.errno == errno.EFBIG
    assert sink.result.exception(60) is raised.value
    assert list(tmp_path.iterdir()) == []


def test_a_pt_file_that_cannot_grow_is_refused_at_once(tmp_path: Path, small_files: None) -> None:
    """Its whole size is claimed when it is opened."""
    clip = noise(40, 64, 96)
    with pytest.raises(StorageFailed, match=r"clip\.pt"):
        open_sink(describe(tmp_path / "clip.pt", clip))
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_fails_the_sink(tmp_path: Path) -> None:
    """ENOSPC from the device itself is a storage failure. An MP4 would meet it as it is opened."""
    clip = noise(40, 64, 96)
    spec = describe(tmp_path / "clip.webm", clip)
    part = FullDisk(spec.path)
    sink = Session(spec, VideoWriter(spec, part.file), part)
    with pytest.raises(StorageFailed) as raised:
        write_all(sink, clip)
    assert isinstance(raised.value.__cause__, OSError)
    assert raised.value.__cause__.errno == errno.ENOSPC
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_fails_when_it_is_waited_for_fails_the_sink(tmp_path: Path) -> None:
    """Some file systems tell only then that they had no room; the check beside it finds nothing wrong."""

    class Unwritten(PartFile):
        def sync(self) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    clip = smooth(9, 32, 48)
    spec = describe(tmp_path / "clip.mp4", clip)
    part = Unwritten(spec.path)
    sink = Session(spec, VideoWriter(spec, part.file), part)
    sink.write(clip)
    with pytest.raises(StorageFailed, match=r"clip\.mp4: No space left"):
        sink.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_folder_that_vanishes_fails_the_sink(tmp_path: Path, suffix: str) -> None:
    """The last step, giving the file its name, may fail too."""
    clip = smooth(4, 32, 48)
    folder = tmp_path / "job"
    folder.mkdir()
    sink = open_sink(describe(folder / f"clip{suffix}", clip))
    shutil.rmtree(folder)
    sink.write(clip)
    with pytest.raises(StorageFailed):
        sink.close()


def test_a_name_that_is_taken_by_a_folder_fails_the_sink(tmp_path: Path) -> None:
    """A folder is not replaced by a file."""
    clip = smooth(4, 32, 48)
    (tmp_path / "clip.mp4").mkdir()
    sink = open_sink(describe(tmp_path / "clip.mp4", clip))
    sink.write(clip)
    with pytest.raises(StorageFailed):
        sink.close()
    assert list(tmp_path.iterdir()) == [tmp_path / "clip.mp4"]


@pytest.mark.parametrize(
    ("options", "named"),
    [({"preset": "sluggish"}, "preset=sluggish"), ({"crf": "18", "profile": "high9"}, "profile=high9")],
)
def test_what_the_encoder_refuses_comes_at_open(tmp_path: Path, options: dict[str, str], named: str) -> None:
    """Values that no allow-list saw are refused before any frame, with the encoder's reason."""
    clip = smooth(4, 32, 48)
    with pytest.raises(EncodingError, match=f"libx264 refuses 48x32 .*{named}") as raised:
        open_sink(describe(tmp_path / "clip.mp4", clip, options=options))
    assert isinstance(raised.value.__cause__, av.FFmpegError)
    assert list(tmp_path.iterdir()) == []


def test_an_option_that_the_encoder_does_not_know_is_refused(tmp_path: Path) -> None:
    """FFmpeg would ignore it in silence."""
    clip = smooth(4, 32, 48)
    with pytest.raises(InvalidOption, match=r"cpu-used.*libx264 has no such option") as raised:
        open_sink(describe(tmp_path / "clip.mp4", clip, options={"cpu-used": "4"}))
    assert raised.value.option == "cpu-used"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("field", "spec"),
    [
        ("width", OutputSpec(Path("a.mp4"), "mp4", 101, 60, 4, Fraction(24))),
        ("height", OutputSpec(Path("a.mp4"), "mp4", 100, 61, 4, Fraction(24))),
        ("width", OutputSpec(Path("a.mp4"), "mp4", 0, 60, 4, Fraction(24))),
        ("height", OutputSpec(Path("a.webm"), "webm", 100, 20_000, 4, Fraction(24))),
        ("num_frames", OutputSpec(Path("a.mp4"), "mp4", 100, 60, 0, Fraction(24))),
        ("fps", OutputSpec(Path("a.mp4"), "mp4", 100, 60, 4, Fraction(0))),
        ("fps", OutputSpec(Path("a.mp4"), "mp4", 100, 60, 4, Fraction(2**33 + 1, 2**32))),
        ("num_frames", OutputSpec(Path("a.pt"), "pt", 100, 60, 0, Fraction(24))),
        ("format", OutputSpec(Path("a.mov"), "mov", 100, 60, 4, Fraction(24))),
    ],
)
def test_what_no_file_can_hold_is_refused(field: str, spec: OutputSpec) -> None:
    """The error names the field, its value and what is allowed."""
    with pytest.raises(InvalidSpec, match=rf"^{field}: .*(allowed|known)") as raised:
        open_sink(spec)
    assert raised.value.field == field


def test_only_what_can_be_streamed_takes_a_live_callback(tmp_path: Path) -> None:
    """A callback that would never be called is refused."""
    clip = smooth(4, 32, 48)
    with pytest.raises(InvalidSpec, match="webm cannot be streamed, mp4 can"):
        open_sink(describe(tmp_path / "clip.webm", clip), lambda _: None)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_encoder_has_its_own_error() -> None:
    """Another build of FFmpeg is what helps, not another request."""
    with pytest.raises(EncoderMissing, match="libx999"):
        find_encoder("libx999")


def test_a_file_that_lacks_a_frame_is_not_delivered(tmp_path: Path) -> None:
    """The finished file is opened and counted: an encoder that lost a picture is found out."""

    class Forgetful(VideoWriter):
        def __init__(self, spec: OutputSpec, file: BinaryIO) -> None:
            super().__init__(spec, file)
            self.seen = 0

        def add(self, frame: torch.Tensor) -> None:
            self.seen += 1
            if self.seen != 3:
                super().add(frame)

    clip = smooth(9, 32, 48)
    spec = describe(tmp_path / "clip.mp4", clip)
    sink = start(spec, lambda file: Forgetful(spec, file))
    sink.write(clip)
    with pytest.raises(EncodingError, match=r"\(48, 32, 8, 8\).*\(48, 32, 9, 9\)"):
        sink.close()
    assert list(tmp_path.iterdir()) == []


def test_a_failure_does_not_keep_the_encoder(tmp_path: Path) -> None:
    """While the error is still held, the encoder's memory and threads are free again."""

    class Broken(VideoWriter):
        def add(self, frame: torch.Tensor) -> None:
            super().add(frame)
            raise ZeroDivisionError("broken")

    clip = smooth(9, 32, 48)
    spec = describe(tmp_path / "clip.mp4", clip)
    before = encoders()
    sink = start(spec, lambda file: Broken(spec, file))
    with pytest.raises(EncodingError, match=r"clip\.mp4: ZeroDivisionError: broken") as raised:
        write_all(sink, clip)
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    assert sink.result.exception(60) is raised.value  # it is told last of all
    assert encoders() <= before


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.ENOENT, errno.EDQUOT])
def test_the_systems_errors_are_storage_failures(code: int) -> None:
    """Whether the file's write or av's own call met them."""
    ours = translate(OSError(code, "system"), "writing a.mp4")
    assert type(ours) is StorageFailed
    assert str(ours).startswith("writing a.mp4: ")
    with pytest.raises(av.FFmpegError) as raised:
        av.error.err_check(-code)
    assert type(translate(raised.value, "writing a.mp4")) is StorageFailed


def test_our_own_errors_are_not_wrapped() -> None:
    """Translating twice changes nothing."""
    ours = InvalidOption("crf", "crf: no")
    assert translate(ours, "writing") is ours
