"""Sounds of references: WAV of 32-bit floats, the one kind that pipelines are given."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO

import torch

from pipelines.errors import InvalidParams

_FLOAT, _EXTENSIBLE = 3, 0xFFFE


def read_sound(path: Path, field: str = "audio") -> tuple[torch.Tensor, int]:
    """The samples, (channels, N) float32, and how many there are a second.

    Raises:
        InvalidParams: on `field`: it is no such file.
    """
    try:
        with path.open("rb") as file:
            channels, rate, data = _parts(file)
    except (OSError, ValueError, struct.error) as error:
        raise InvalidParams(field, f"{path.name}: is no WAV of 32-bit floats ({error})") from None
    whole = len(data) // (4 * channels) * 4 * channels
    samples = torch.frombuffer(bytearray(data[:whole]), dtype=torch.float32) if whole else torch.zeros(0)
    return samples.view(-1, channels).t(), rate


def _parts(file: BinaryIO) -> tuple[int, int, bytes]:
    riff, _, wave = struct.unpack("<4sI4s", file.read(12))
    if (riff, wave) != (b"RIFF", b"WAVE"):
        raise ValueError("no RIFF header")
    channels = rate = 0
    while True:
        name, size = struct.unpack("<4sI", file.read(8))
        if name == b"data":
            if channels == 0:
                raise ValueError("no format before its data")
            return channels, rate, file.read() if size == 0xFFFFFFFF else file.read(size)
        chunk = file.read(size + size % 2)
        if name == b"fmt ":
            kind, channels, rate, _, _, bits = struct.unpack("<HHIIHH", chunk[:16])
            if kind not in (_FLOAT, _EXTENSIBLE) or bits != 32:
                raise ValueError(f"{bits} bits of kind {kind}")
