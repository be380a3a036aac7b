"""The benchmark's picture of chunks."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from benchmarks.timeline import Span, draw


def test_spans_lie_where_their_times_say() -> None:
    """Each lane is below the one before; widths are in proportion to the times, on one scale."""
    picture = ET.fromstring(draw("title", [("one", [Span(0, 1), Span(1, 3)]), ("two", [Span(2, 4)])]))  # noqa: S314 our own
    bars = [item for item in picture.iter() if item.tag.endswith("rect") and "fill-opacity" in item.attrib]
    x, y, width = ([float(bar.attrib[name]) for bar in bars] for name in ("x", "y", "width"))
    assert y[0] == y[1] < y[2]
    assert [round(value / width[0], 2) for value in width] == [1, 2, 2]
    assert abs(x[1] - x[0] - width[0]) < 0.2
    assert abs(x[2] - x[0] - 2 * width[0]) < 0.2
