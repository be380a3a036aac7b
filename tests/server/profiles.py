"""ICC profiles by hand, as cameras and print shops embed them."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

Lab = tuple[float, float, float]

PAPER: Lab = (100, 0, 0)
CYAN: Lab = (60, -20, -25)
"""What a solid area of cyan ink looks like on that paper: far from what a screen calls cyan."""
DARK: Lab = (0, 0, 0)
"""What every other combination of inks looks like here."""


def wide_gamut() -> bytes:
    """Adobe RGB's primaries, with a gamma of 2.2."""
    curve = b"curv\0\0\0\0" + struct.pack(">IHxx", 1, round(2.2 * 256))
    tags = {
        b"rXYZ": _xyz(0.60974, 0.31111, 0.01947),
        b"gXYZ": _xyz(0.20528, 0.62567, 0.06087),
        b"bXYZ": _xyz(0.14919, 0.06322, 0.74457),
        b"rTRC": curve,
        b"gTRC": curve,
        b"bTRC": curve,
    }
    return _profile(b"mntr", b"RGB ", b"XYZ ", tags)


def dark_grey() -> bytes:
    """Grey levels of a gamma of 4: much darker than they are on a screen."""
    curve = b"curv\0\0\0\0" + struct.pack(">IHxx", 1, 4 * 256)
    return _profile(b"mntr", b"GRAY", b"XYZ ", {b"kTRC": curve})


def inks() -> bytes:
    """A printer with cyan, magenta, yellow and black: `PAPER`, `CYAN` alone, and `DARK` for all else."""
    corners = [PAPER if n == 0 else CYAN if n == 0b1000 else DARK for n in range(16)]
    straight = bytes(range(256))
    identity = _s15(1, 0, 0, 0, 1, 0, 0, 0, 1)
    table = b"mft1\0\0\0\0" + bytes([4, 3, 2, 0]) + identity + straight * 4
    table += b"".join(map(_lab_8, corners)) + straight * 3
    return _profile(b"prtr", b"CMYK", b"Lab ", {b"A2B0": table})


def _lab_8(colour: Lab) -> bytes:
    return bytes([round(colour[0] * 2.55), round(colour[1] + 128), round(colour[2] + 128)])


def _s15(*values: float) -> bytes:
    return struct.pack(f">{len(values)}i", *(round(value * 65536) for value in values))


def _xyz(*values: float) -> bytes:
    return b"XYZ \0\0\0\0" + _s15(*values)


def _profile(kind: bytes, space: bytes, connection: bytes, tags: Mapping[bytes, bytes]) -> bytes:
    name = b"ours\0"
    described = b"desc\0\0\0\0" + struct.pack(">I", len(name)) + name + bytes(78)
    tags = {b"desc": described, b"wtpt": _xyz(0.9642, 1.0, 0.8249), **tags}
    table, body, start = b"", b"", 128 + 4 + 12 * len(tags)
    for tag, data in tags.items():
        table += tag + struct.pack(">II", start + len(body), len(data))
        body += data + bytes(-len(data) % 4)
    size = start + len(body)
    head = struct.pack(">I4sI4s4s4s", size, b"none", 0x02100000, kind, space, connection)
    head += struct.pack(">6H", 2026, 1, 1, 0, 0, 0) + b"acsp" + bytes(28) + _s15(0.9642, 1.0, 0.8249)
    return head + bytes(48) + struct.pack(">I", len(tags)) + table + body


def screen_colour(lab: Sequence[float]) -> tuple[int, ...]:
    """A colour in sRGB, by the formulas of CIE and IEC 61966-2-1; the white points are adapted (Bradford)."""
    y = (lab[0] + 16) / 116
    x, z = y + lab[1] / 500, y - lab[2] / 200
    white = (0.9642, 1.0, 0.8249)
    xyz = [
        w * (f**3 if f > 6 / 29 else 3 * (6 / 29) ** 2 * (f - 4 / 29))
        for w, f in zip(white, (x, y, z), strict=True)
    ]
    to_rgb = (
        (3.1338561, -1.6168667, -0.4906146),
        (-0.9787684, 1.9161415, 0.0334540),
        (0.0719453, -0.2289914, 1.4052427),
    )
    linear = [sum(c * v for c, v in zip(row, xyz, strict=True)) for row in to_rgb]
    clipped = [min(1.0, max(0.0, value)) for value in linear]
    return tuple(
        round(255 * (12.92 * v if v <= 0.0031308 else 1.055 * v ** (1 / 2.4) - 0.055)) for v in clipped
    )
