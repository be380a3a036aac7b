"""The `Range` header (RFC 9110, section 14)."""

from __future__ import annotations

import re

from server.errors import RangeNotSatisfiable

MAX_RANGES = 32
"""Players ask for one or two. More than this is no way to read a file, and is answered with all of it."""

_SPEC = re.compile(r"(\d{0,100})-(\d{0,100})", re.ASCII)


def parse_ranges(header: str | None, size: int) -> list[range]:
    """The offsets that are asked for in a file of `size` bytes, a `range` for each part; none for all of it.

    As the standard has it, a header of another unit or that cannot be read asks for the whole file. So does
    one whose parts are more bytes than the file.

    Raises:
        RangeNotSatisfiable: no byte that is asked for is in the file.
    """
    wanted = _read(header, size)
    parts = [part for part in wanted if len(part) > 0]
    if wanted and not parts:
        raise RangeNotSatisfiable(f"Range: no byte of {header!r:.100} is in the file of {size} bytes", size)
    return parts if sum(map(len, parts)) <= size else []


def _read(header: str | None, size: int) -> list[range]:
    unit, _, text = (header or "").partition("=")
    specs = [spec.strip() for spec in text.split(",") if spec.strip()]
    if unit.strip().lower() != "bytes" or len(specs) > MAX_RANGES:
        return []
    parts = [_part(spec, size) for spec in specs]
    return [part for part in parts if part is not None] if None not in parts else []


def _part(spec: str, size: int) -> range | None:
    """Empty where it lies beyond the file; None where it has no meaning."""
    match = _SPEC.fullmatch(spec)
    if match is None or spec == "-":
        return None
    first, last = match.groups()
    if not first:
        return range(max(size - int(last), 0), size)
    if last and int(last) < int(first):
        return None
    return range(int(first), min(int(last) + 1, size) if last else size)
