"""What a fork says of the files that it writes."""

from __future__ import annotations

import pytest

from server.shapes import Shape


def test_what_is_said_is_understood() -> None:
    """A picture, and a film with its length to a millisecond."""
    assert Shape.parse(str(Shape(64, 48))) == Shape(64, 48)
    assert Shape.parse(str(Shape(1920, 1080, 2 / 3))) == Shape(1920, 1080, 0.667)


@pytest.mark.parametrize(
    "words", ["", "64", "0 48 0.000", "-1 48 0.000", "64 48 nan", "9999999 1 0.000", "64 48 0.000 x"]
)
def test_nothing_else_is_taken(words: str) -> None:
    """It has read what a client sent."""
    with pytest.raises(OSError, match="does not say how large"):
        Shape.parse(words)
