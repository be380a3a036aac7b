"""Files of raw frames, uint8 (T, H, W, 3), written frame by frame: `.pt` and safetensors.

Sound stands beside them as it was given, float32 (channels, N), as long as the frames.
"""

from __future__ import annotations

import json
import math
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import torch
from safetensors import safe_open
from torch.serialization import skip_data

from encoding.base import OutputSpec
from encoding.errors import EncodingError, InvalidSpec
from encoding.frames import RGB24
from encoding.session import Session, start
from encoding.sound import check_audio

if TYPE_CHECKING:
    from encoding.formats import Live

_STORAGE = "archive/data/{}"
"""Where `torch.save` puts the bytes of its tensors, by their number."""
_SILENCE = bytes(2**16)


def open_pt(spec: OutputSpec, live: Live | None = None) -> Session:
    """`torch.save` of {"frames": uint8 (T, H, W, 3), "fps": float}; loads with `weights_only=True`.

    With sound, "audio" is float32 (channels, N) and "sample_rate" an int.

    Raises:
        EncodingError: what the specification or the folder refuses.
    """
    check_raw(spec)
    return start(spec, lambda file: PtWriter(spec, file))


def open_safetensors(spec: OutputSpec, live: Live | None = None) -> Session:
    """The tensor `frames`, uint8 (T, H, W, 3), with `fps` as an exact fraction in the metadata.

    With sound, there is the tensor `audio`, float32 (channels, N), and `sample_rate` in the metadata.

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
    if spec.audio is not None:
        check_audio(spec.audio)


class _RawWriter:
    """Writes frames one after the other from where `file` stands, and the sound at `_sound_at`."""

    packing = RGB24

    def __init__(self, spec: OutputSpec, file: BinaryIO) -> None:
        self._spec = spec
        self._file = file
        self._sound_at = 0

    @property
    def _shape(self) -> tuple[int, int, int, int]:
        return (self._spec.num_frames, self._spec.height, self._spec.width, 3)

    @property
    def _sound_shape(self) -> tuple[int, int] | None:
        if (audio := self._spec.audio) is None:
            return None
        return (audio.channels, self._spec.samples(audio.sample_rate))

    def add(self, frame: torch.Tensor) -> None:
        self._file.write(frame.numpy().data)

    def add_sound(self, samples: torch.Tensor) -> Iterator[None]:
        here = self._file.tell()
        self._file.seek(self._sound_at)
        for piece in self._rows(samples):
            self._write_sound(piece)
            yield
        self._file.seek(here)

    def _rows(self, samples: torch.Tensor) -> Iterator[memoryview]:
        """The bytes of `samples`, each channel with silence up to its length."""
        assert self._sound_shape is not None, "the session takes no sound that was not announced"
        missing = 4 * (self._sound_shape[1] - samples.shape[1])
        for row in samples:
            yield row.numpy().data.cast("B")
            for first in range(0, missing, len(_SILENCE)):
                yield memoryview(_SILENCE)[: missing - first]

    def _write_sound(self, piece: memoryview) -> None:
        self._file.write(piece)

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
    """Eight bytes with the length of a JSON header, the header, the sound if there is any, the frames."""

    def __init__(self, spec: OutputSpec, file: BinaryIO) -> None:
        super().__init__(spec, file)
        size, sound = spec.num_frames * self.packing.frame_bytes(spec.width, spec.height), 0
        header: dict[str, object] = {"__metadata__": {"fps": str(spec.fps)}}
        if spec.audio is not None and self._sound_shape is not None:  # first: its floats must be aligned
            sound = 4 * math.prod(self._sound_shape)
            header["__metadata__"] = {"fps": str(spec.fps), "sample_rate": str(spec.audio.sample_rate)}
            header["audio"] = {"dtype": "F32", "shape": self._sound_shape, "data_offsets": (0, sound)}
        header["frames"] = {"dtype": "U8", "shape": self._shape, "data_offsets": (sound, sound + size)}
        text = json.dumps(header).encode()
        text = text.ljust(-(-len(text) // 8) * 8)  # keeps what follows aligned
        file.write(len(text).to_bytes(8, "little") + text)
        self._sound_at = file.tell()
        file.seek(sound, os.SEEK_CUR)

    def check(self, path: Path) -> None:
        with safe_open(str(path), framework="pt") as file:
            for name, kind, shape in (("frames", "U8", self._shape), ("audio", "F32", self._sound_shape)):
                if shape is not None:
                    found = file.get_slice(name)
                    self._check((found.get_dtype(), tuple(found.get_shape())), (kind, shape))


class PtWriter(_RawWriter):
    """The archive that `torch.save` makes, with the frames left out at first and filled in as they come.

    Note [Checksum]: torch notes no checksum for bytes that it skips, and zip readers refuse that; so it is
    computed along the way and put into the two places where the format keeps it.
    """

    def __init__(self, spec: OutputSpec, file: BinaryIO) -> None:
        super().__init__(spec, file)
        with skip_data():
            # `empty` takes addresses, not memory, and `skip_data` never looks at what lies there.
            tensors = [torch.empty(self._shape, dtype=torch.uint8)]
            saved: dict[str, object] = {"frames": tensors[0], "fps": float(spec.fps)}
            if spec.audio is not None and self._sound_shape is not None:
                tensors.append(torch.empty(self._sound_shape))
                saved |= {"audio": tensors[1], "sample_rate": spec.audio.sample_rate}
            torch.save(saved, file)
        self._records = [_locate(file, number, tensor.nbytes) for number, tensor in enumerate(tensors)]
        self._sound_at = self._records[-1].first
        file.seek(self._records[0].first)

    def add(self, frame: torch.Tensor) -> None:
        super().add(frame)
        self._records[0].count(frame.numpy().data)

    def _write_sound(self, piece: memoryview) -> None:
        super()._write_sound(piece)
        self._records[1].count(piece)

    def close(self) -> None:
        for record in self._records:
            for offset in record.checksums:
                self._file.seek(offset)
                self._file.write(record.crc.to_bytes(4, "little"))

    def check(self, path: Path) -> None:
        loaded = torch.load(path, mmap=True, weights_only=True)
        for name, kind, shape in (
            ("frames", torch.uint8, self._shape),
            ("audio", torch.float32, self._sound_shape),
        ):
            if shape is not None:
                self._check((loaded[name].dtype, tuple(loaded[name].shape)), (kind, shape))


@dataclass(slots=True)
class _Record:
    """The bytes of one tensor in the archive."""

    first: int
    """Where they start."""
    checksums: tuple[int, int]
    """Where their checksum stands: behind them and in the central directory."""
    crc: int = 0

    def count(self, data: memoryview) -> None:
        self.crc = zlib.crc32(data, self.crc)


def _locate(file: BinaryIO, number: int, size: int) -> _Record:
    name = _STORAGE.format(number)
    with zipfile.ZipFile(file) as archive:
        header = archive.getinfo(name).header_offset
        directory = archive.start_dir
    file.seek(header)
    name_length, extra_length = struct.unpack_from("<2H", file.read(30), 26)
    first = header + 30 + name_length + extra_length
    return _Record(first, (first + size + 4, _directory_entry(file, directory, name) + 16))


def _directory_entry(file: BinaryIO, offset: int, name: str) -> int:
    while True:
        file.seek(offset)
        name_length, *other_lengths = struct.unpack_from("<3H", file.read(46), 28)
        if file.read(name_length) == name.encode():
            return offset
        offset += 46 + name_length + sum(other_lengths)
