"""What requests and answers are made of."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated

from pydantic import BaseModel, ConfigDict, PlainSerializer, WithJsonSchema


def rate_on_wire(rate: Fraction) -> int | float | str:
    """A number if it says the rate exactly, or else "numerator/denominator"."""
    number = float(rate)
    if Fraction(repr(number)) != rate:
        return f"{rate.numerator}/{rate.denominator}"
    return int(number) if number.is_integer() else number


_RATE_SCHEMA = {"anyOf": [{"type": "number"}, {"type": "string", "pattern": "^[0-9]+/[0-9]+$"}]}

Exact = Annotated[Fraction, WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "string"}]})]
"""A number that was sent as such or as numeric text, every digit kept."""
Rate = Annotated[Fraction, WithJsonSchema(_RATE_SCHEMA), PlainSerializer(rate_on_wire)]
"""Frames per second, exact."""


class Wire(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)
