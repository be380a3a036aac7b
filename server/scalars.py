"""What a single value means, whether it came as JSON or as the text of a form.

Numbers follow JSON's grammar in both: `1e-07`, and `16.0` for an integer, but neither `0x10`, `1_000`,
`+5`, `05`, nor digits of other scripts. Spaces around numbers, sizes and words are dropped. A truth value is
no number.
"""

from __future__ import annotations

import re
from fractions import Fraction

from server.values import Number, Value

MAX_DIGITS = 100
"""Characters of a number: more than any client's formatting, few enough to be read exactly."""
MAX_EXPONENT = 30
MAX_RATE_TERM = 1_000_000
"""Containers keep a rate as two integers; larger ones overflow their clocks."""
_NTSC_DENOMINATOR = 1001
_FLOAT_NOISE = Fraction(1, 10**9)

_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE]([+-]?\d+))?", re.ASCII)
_RATIO = re.compile(r"(\d{1,7})/(\d{1,7})", re.ASCII)
_SIZE = re.compile(r"([1-9]\d{0,8})[xX*]([1-9]\d{0,8})", re.ASCII)
_SPACES = " \t\r\n"


class Unreadable(ValueError):
    """A value without the meaning that its field needs; `why` is empty when the value speaks for itself."""

    def __init__(self, why: str = "") -> None:
        super().__init__(why)
        self.why = why


def read_text(value: Value) -> str:
    """Prose: line ends become LF, as forms and JSON differ in them. Refuses NUL and lone surrogates."""
    if not isinstance(value, str) or isinstance(value, Number):
        raise Unreadable
    if "\0" in value:
        raise Unreadable("contains a NUL character")
    if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise Unreadable("contains half of a surrogate pair")
    return value.replace("\r\n", "\n")


def read_prompt(value: Value) -> str:
    """Prose that says something."""
    text = read_text(value)
    if not text.strip():
        raise Unreadable("is blank")
    return text


def read_word(value: Value) -> str:
    """A name from a list, in lower case."""
    return read_text(value).strip(_SPACES).lower()


def read_bool(value: Value) -> bool:
    """`true` or `false`; Python's form clients send them capitalized."""
    if isinstance(value, bool):
        return value
    word = read_word(value)
    if word not in ("true", "false"):
        raise Unreadable
    return word == "true"


def read_exact(value: Value) -> Fraction:
    """A number as its digits say, not as the nearest float."""
    literal = _literal(value)
    if abs(int(_exponent(literal))) > MAX_EXPONENT:
        raise Unreadable("has an exponent beyond any use")
    return Fraction(literal)


def read_int(value: Value) -> int:
    """A whole number; `16.0` is one."""
    number = read_exact(value)
    if number.denominator != 1:
        raise Unreadable
    return int(number)


def read_float(value: Value) -> float:
    """A number; what is too large for a float becomes infinity, which no field allows."""
    return float(_literal(value)) + 0.0  # -0.0 becomes 0.0


def read_rate(value: Value) -> Fraction:
    """Frames per second: "24000/1001" or a decimal, exact; a float's noise around such a ratio is dropped."""
    ratio = _RATIO.fullmatch(value.strip(_SPACES)) if isinstance(value, str) else None
    if ratio is None:
        return _without_noise(read_exact(value))
    if int(ratio[2]) == 0:
        raise Unreadable("divides by zero")
    return _without_noise(Fraction(int(ratio[1]), int(ratio[2])))


def read_size(value: Value) -> str:
    """ "WxH" or "auto"; `*` and capitals are other tools' spellings."""
    word = read_word(value)
    match = _SIZE.fullmatch(word)
    if match is None and word != "auto":
        raise Unreadable
    return word if match is None else f"{match[1]}x{match[2]}"


def _without_noise(rate: Fraction) -> Fraction:
    if max(rate.numerator, rate.denominator) <= MAX_RATE_TERM:
        return rate
    near = rate.limit_denominator(_NTSC_DENOMINATOR)
    if abs(near - rate) > abs(rate) * _FLOAT_NOISE:
        raise Unreadable(f"needs more than {MAX_RATE_TERM:,} in its numerator or denominator")
    return near


def _literal(value: Value) -> str:
    """The characters of a number, JSON's or a form's."""
    literal = value.strip(_SPACES) if isinstance(value, str) else ""
    if len(literal) > MAX_DIGITS:
        raise Unreadable(f"has more than {MAX_DIGITS} characters")
    if _NUMBER.fullmatch(literal) is None:
        raise Unreadable
    return literal


def _exponent(literal: str) -> str:
    match = _NUMBER.fullmatch(literal)
    return "0" if match is None or match[1] is None else match[1]
