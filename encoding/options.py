"""Codec options: the service's defaults, and what a request may set. Imports neither torch nor av."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from encoding.errors import InvalidOption

_DECIMAL = re.compile(r"[0-9]{1,10}(\.[0-9]{1,6})?")


@dataclass(frozen=True, slots=True)
class Choice:
    """An option that is one of some words."""

    ffmpeg: str
    """FFmpeg's name of it."""
    words: tuple[str, ...]

    @property
    def allowed(self) -> str:
        return f"one of {', '.join(self.words)}"

    def read(self, value: object) -> str | None:
        """The value for FFmpeg; None if it is not allowed."""
        return value if isinstance(value, str) and value in self.words else None


@dataclass(frozen=True, slots=True)
class Number:
    """An option that is a number, also as decimal text, from `low` to `high`."""

    ffmpeg: str
    low: int
    high: int
    whole: bool = True
    unit: str = ""

    @property
    def allowed(self) -> str:
        return f"{'a whole number' if self.whole else 'a number'} from {self.low} to {self.high}{self.unit}"

    def read(self, value: object) -> str | None:
        """The value for FFmpeg; None if it is not allowed."""
        number = _number(value)
        if number is None or not self.low <= number <= self.high:
            return None
        if number == int(number):
            return str(int(number))
        return None if self.whole else str(number)


@dataclass(frozen=True, slots=True)
class Codec:
    """One encoder's options. Values are FFmpeg's."""

    defaults: Mapping[str, str]
    """The service's choice, for whoever gives no options."""
    always: Mapping[str, str]
    """Set under any options, unless they say otherwise: what keeps the bytes the same on every machine."""
    options: Mapping[str, Choice | Number]
    """What a request may set, by the request's names."""


# Measured: docs/decisions/2026-11-29-codec-defaults.md.
CODECS: Mapping[str, Codec] = MappingProxyType(
    {
        "libx264": Codec(
            defaults=MappingProxyType({"preset": "veryfast", "crf": "18", "rc-lookahead": "5"}),
            # x264's output depends on its thread count, which is the machine's unless given. Its AVX-512
            # code for macroblock trees reads memory that nobody wrote; `cpu-independent` avoids it.
            always=MappingProxyType({"threads": "8", "x264-params": "cpu-independent=1"}),
            options=MappingProxyType(
                {
                    "preset": Choice(
                        "preset",
                        (
                            "ultrafast",
                            "superfast",
                            "veryfast",
                            "faster",
                            "fast",
                            "medium",
                            "slow",
                            "slower",
                            "veryslow",
                        ),
                    ),
                    "crf": Number("crf", 0, 51, whole=False),
                    "bitrate": Number("b", 10_000, 200_000_000, unit=" bits per second"),
                    "profile": Choice("profile", ("baseline", "main", "high")),
                    "gop": Number("g", 1, 1000, unit=" frames"),
                    "threads": Number("threads", 1, 16),
                    "tune": Choice(
                        "tune",
                        (
                            "film",
                            "animation",
                            "grain",
                            "stillimage",
                            "psnr",
                            "ssim",
                            "fastdecode",
                            "zerolatency",
                        ),
                    ),
                }
            ),
        ),
        "libvpx-vp9": Codec(
            defaults=MappingProxyType({"deadline": "realtime", "cpu-used": "6", "crf": "24", "row-mt": "1"}),
            always=MappingProxyType({"threads": "4"}),
            options=MappingProxyType(
                {
                    "deadline": Choice("deadline", ("realtime", "good")),
                    "cpu-used": Number("cpu-used", 0, 8),
                    "crf": Number("crf", 0, 63),
                    "bitrate": Number("b", 10_000, 200_000_000, unit=" bits per second"),
                    "gop": Number("g", 1, 1000, unit=" frames"),
                    "threads": Number("threads", 1, 16),
                }
            ),
        ),
    }
)


def resolve(codec: str | None, given: Mapping[str, object] | None, *, present: bool) -> Mapping[str, str]:
    """FFmpeg's options for `codec` (None: a format without one) from what a request says.

    Not `present`: the service's defaults. None or empty: the codec's own. Otherwise the codec's own with the
    given ones set, each of which must be in the allow-list.

    Raises:
        InvalidOption: one that is unknown, out of range, or contradicts another.
    """
    if not present:
        return dict(CODECS[codec].defaults) if codec is not None else {}
    if given is None or len(given) == 0:
        return {}
    if codec is None:
        raise InvalidOption(next(iter(given)), "codec options: the format holds raw frames and takes none")
    resolved = dict(_read(codec, name, value) for name, value in given.items())
    _check_together(given, resolved)
    return resolved


def _read(codec: str, name: str, value: object) -> tuple[str, str]:
    options = CODECS[codec].options
    if (option := options.get(name)) is None:
        raise InvalidOption(name, f"{_shown(name)} is no option of {codec}; allowed are {', '.join(options)}")
    if (text := option.read(value)) is None:
        raise InvalidOption(name, f"{name}: {_shown(value)} is not allowed, {option.allowed} is")
    return option.ffmpeg, text


def _check_together(given: Mapping[str, object], resolved: Mapping[str, str]) -> None:
    if "bitrate" in given and "crf" in given:
        raise InvalidOption(
            "bitrate", f"bitrate: {given['bitrate']} given beside crf; only one of them is allowed"
        )
    # Below 1, x264 codes without loss, which none of the profiles that players know has room for.
    if "profile" in given and float(resolved.get("crf", 1)) < 1:
        raise InvalidOption(
            "profile", f"profile: {given['profile']} is not allowed with crf {given['crf']}, 1 or more is"
        )


def _number(value: object) -> float | None:
    if isinstance(value, str):
        return float(value) if _DECIMAL.fullmatch(value) else None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _shown(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > 64:  # Python refuses to print the longest
        return f"an integer of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"
