"""Files of raw frames, uint8 (T, H, W, 3), written frame by frame: `.pt` and safetensors."""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import torch
from safetensors import safe_open
from torch.serialization import skip_data

from encoding.base import OutputSpec
from encoding.errors import EncodingError, InvalidSpec
from encoding.frames import RGB24
from encoding.session import Session, start

if TYPE_CHECKING:
    from encoding.formats import Live

_STORAGE = "archive/data/0"
"""Where `torch.save` puts the bytes of the first tensor."""


def open_pt(spec: OutputSpec, live: Live | None = None) -> Session:
    """`torch.save` of {"frames": uint8 (T, H, W, 3), "fps": float}; loads with `weights_only=True`.

    Raises:
        EncodingError: what the specification or the folder refuses.
    """
    check_raw(spec)
    return start(spec, lambda file: PtWriter(spec, file))


def open_safetensors(spec: OutputSpec, live: Live | None = None) -> Session:
    """The tensor `frames`, uint8 (T, H, W, 3), with `fps` as an exact fraction in the metadata.

    Raises:
        EncodingError: what the specification or the folder refuses.
    """
    check_raw(spec)
    return start(spec, lambda file: SafetensorsWriter(spec, file))


def check_raw(spec: OutputSpec) -> None:
    """Raise InvalidSpec for what raw frames cannot be."""
    for field in ("width", "height", "num_frames"):
        if (value := getattr(spec, field)) < 1:
            raise InvalidSpec(field, f"{field}: {value} given, 1 or more is allowed")
    if spec.fps <= 0:
        raise InvalidSpec("fps", f"fps: {spec.fps} given, more than 0 is allowed")


class _RawWriter:
    """Writes frames one after the other from where `file` stands."""

    packing = RGB24

    def __init__(self, spec: OutputSpec, file: BinaryIO) -> None:
        self._spec = spec
        self._file = file

    @property
    def _shape(self) -> tuple[int, int, int, int]:
        return (self._spec.num_frames, self._spec.height, self._spec.width, 3)

    def add(self, frame: torch.Tensor) -> None:
        self._file.write(frame.numpy().data)

    def end_chunk(self) -> None:
        """Chunks leave no mark in the file."""

    def drain(self) -> Iterator[None]:
        return iter(())

    def close(self) -> None:
        """The last frame completed the file."""

    def abandon(self) -> None:
        """Nothing is held but the file."""

    def _check(self, found: object, wanted: object) -> None:
        if found != wanted:
            raise EncodingError(f"{self._spec.path.name}: holds {found}, {wanted} expected")


class SafetensorsWriter(_RawWriter):
    """Eight bytes with the length of a JSON header, the header, the frames."""

    def __init__(self, spec: OutputSpec, file: BinaryIO) -> None:
        super().__init__(spec, file)
        size = spec.num_frames * self.packing.frame_bytes(spec.width, spec.height)
        header = {
            "__metadata__": {"fps": str(spec.fps)},
            "frames": {"dtype": "U8", "shape": self._shape, "data_offsets": (0, size)},
        }
        text = json.dumps(header).encode()
        text = text.ljust(-(-len(text) // 8) * 8)  # keeps the frames aligned
        file.write(len(text).to_bytes(8, "little") + text)

    def check(self, path: Path) -> None:
        with safe_open(str(path), framework="pt") as file:
            frames = file.get_slice("frames")
            self._check((frames.get_dtype(), tuple(frames.get_shape())), ("U8", self._shape))


class PtWriter(_RawWriter):
    """The archive that `torch.save` makes, with the frames left out at first and filled in as they come.

    Note [Checksum]: torch notes no checksum for bytes that it skips, and zip readers refuse that; so it is
    computed along the way and put into the two places where the format keeps it.
    """

    def __init__(self, spec: OutputSpec, file: BinaryIO) -> None:
        super().__init__(spec, file)
        with skip_data():
            # `empty` takes addresses, not memory, and `skip_data` never looks at what lies there.
            frames = torch.empty(self._shape, dtype=torch.uint8)
            torch.save({"frames": frames, "fps": float(spec.fps)}, file)
        self._crc = 0
        first, self._checksums = _locate(file, frames.nbytes)
        file.seek(first)

    def add(self, frame: torch.Tensor) -> None:
        super().add(frame)
        self._crc = zlib.crc32(frame.numpy().data, self._crc)

    def close(self) -> None:
        for offset in self._checksums:
            self._file.seek(offset)
            self._file.write(self._crc.to_bytes(4, "little"))

    def check(self, path: Path) -> None:
        frames = torch.load(path, mmap=True, weights_only=True)["frames"]
        self._check((frames.dtype, tuple(frames.shape)), (torch.uint8, self._shape))


def _locate(file: BinaryIO, size: int) -> tuple[int, tuple[int, int]]:
    """Where the frames start, and where their checksum stands: behind them and in the central directory."""
    with zipfile.ZipFile(file) as archive:
        header = archive.getinfo(_STORAGE).header_offset
        directory = archive.start_dir
    file.seek(header)
    name_length, extra_length = struct.unpack_from("<2H", file.read(30), 26)
    first = header + 30 + name_length + extra_length
    return first, (first + size + 4, _directory_entry(file, directory) + 16)


def _directory_entry(file: BinaryIO, offset: int) -> int:
    while True:
        file.seek(offset)
        name_length, *other_lengths = struct.unpack_from("<3H", file.read(46), 28)
        if file.read(name_length) == _STORAGE.encode():
            return offset
        offset += 46 + name_length + sum(other_lengths)
