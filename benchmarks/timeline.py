"""A picture of how decoding, copying and encoding lie beside each other in time, as SVG."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_WIDTH, _LEFT, _LANE, _TOP = 960, 90, 46, 34
_FONT = 'font-family="system-ui, sans-serif" font-size="13"'
_COLOURS = ("#4269d0", "#efb118", "#3ca951")


@dataclass(frozen=True, slots=True)
class Span:
    """From `begin` to `end`, in seconds."""

    begin: float
    end: float


def draw(title: str, lanes: Sequence[tuple[str, Sequence[Span]]]) -> str:
    """An SVG of `lanes`, each a name and its spans, one below the other over a common axis from 0."""
    last = max(span.end for _, spans in lanes for span in spans)
    scale = (_WIDTH - _LEFT - 20) / last
    height = _TOP + _LANE * len(lanes) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" {_FONT}>',
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="{_LEFT}" y="20" fill="#333333">{title}</text>',
    ]
    for index, (name, spans) in enumerate(lanes):
        parts.extend(_lane(index, name, spans, scale))
    parts.extend(_axis(last, scale, _TOP + _LANE * len(lanes)))
    return "\n".join([*parts, "</svg>", ""])


def _lane(index: int, name: str, spans: Sequence[Span], scale: float) -> Iterable[str]:
    top = _TOP + index * _LANE
    yield f'<text x="{_LEFT - 10}" y="{top + 22}" fill="#333333" text-anchor="end">{name}</text>'
    for number, span in enumerate(spans):
        x, width = _LEFT + span.begin * scale, max(0.7, (span.end - span.begin) * scale)
        shade = 1.0 if number % 2 else 0.65
        yield (
            f'<rect x="{x:.1f}" y="{top + 4}" width="{width:.1f}" height="{_LANE - 14}" '
            f'fill="{_COLOURS[index % len(_COLOURS)]}" fill-opacity="{shade}"/>'
        )


def _axis(last: float, scale: float, top: int) -> Iterable[str]:
    step = next(step for step in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 50) if last / step <= 12)
    for number in range(int(last / step) + 1):
        x = _LEFT + number * step * scale
        yield f'<line x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{top + 4}" stroke="#00000022"/>'
        label = f"{number * step:g} s"
        yield f'<text x="{x:.1f}" y="{top + 20}" fill="#666666" text-anchor="middle">{label}</text>'
