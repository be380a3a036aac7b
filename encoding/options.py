"""Codec options: the service's defaults, and what a request may set. Imports neither torch nor av."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from encoding.choices import Choice, Number
from encoding.errors import InvalidOption


@dataclass(frozen=True, slots=True)
class Codec:
    """One encoder's options. Values are FFmpeg's."""

    defaults: Mapping[str, str]
    """The service's choice, for whoever gives no options."""
    always: Mapping[str, str]
    """Set under any options, unless they say otherwise: what keeps the bytes the same on every machine."""
    options: Mapping[str, Choice | Number]
    """What a request may set, by the request's names."""
    min_side: int = 2
    """Shortest side of a picture that it takes, in pixels."""
    tag: str | None = None
    """Its name in an MP4 where FFmpeg would choose one that some players refuse."""
    realtime: bool = False
    """Whether it takes the highest priority of all where it may, see `priority.usual_priority`."""


_FASTER = ("ultrafast", "superfast", "veryfast", "faster", "fast")
_PRESETS = Choice("preset", (*_FASTER, "medium", "slow", "slower", "veryslow"))
_CRF = Number("crf", 0, 51, whole=False)
_BITRATE = Number("b", 10_000, 200_000_000, unit=" bits per second")
_GOP = Number("g", 1, 1000, unit=" frames")
_THREADS = Number("threads", 1, 16)


def _codec(
    defaults: dict[str, str],
    always: dict[str, str],
    options: dict[str, Choice | Number],
    *,
    min_side: int = 2,
    tag: str | None = None,
    realtime: bool = False,
) -> Codec:
    frozen = MappingProxyType(defaults), MappingProxyType(always), MappingProxyType(options)
    return Codec(*frozen, min_side=min_side, tag=tag, realtime=realtime)


def _nvenc(*profiles: str, cq: int, highest: int, tag: str | None = None) -> Codec:
    """One of the card's encoders. It encodes by quality (`cq`) or `bitrate`, and reorders nothing."""
    options: dict[str, Choice | Number] = {
        "preset": Choice("preset", tuple(f"p{step}" for step in range(1, 8))),
        "cq": Number("cq", 1, highest, whole=False),
        "bitrate": _BITRATE,
        "gop": _GOP,
        "tune": Choice("tune", ("hq", "ll", "ull")),
    }
    if profiles:
        options["profile"] = Choice("profile", profiles)
    always = {"rc": "vbr", "bf": "0", "delay": "0"}
    return _codec({"preset": "p4", "tune": "hq", "cq": str(cq)}, always, options, tag=tag)


# Measured: docs/decisions/2026-11-29-codec-defaults.md, where each of the settings below has its reason.
CODECS: Mapping[str, Codec] = MappingProxyType(
    {
        "libx264": _codec(
            {"preset": "veryfast", "crf": "18", "rc-lookahead": "3", "bf": "1", "aq-strength": "0.5"},
            # x264's output depends on its thread count, which is the machine's unless given. Its AVX-512
            # code for macroblock trees reads memory that nobody wrote; `cpu-independent` avoids it. Unless
            # told that the rate is constant, it holds each frame back until it has seen the next one's time.
            {"threads": "8", "x264-params": "cpu-independent=1:force-cfr=1"},
            {
                "preset": _PRESETS,
                "crf": _CRF,
                "bitrate": _BITRATE,
                "profile": Choice("profile", ("baseline", "main", "high")),
                "gop": _GOP,
                "threads": _THREADS,
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
            },
        ),
        "libx265": _codec(
            {"preset": "veryfast", "crf": "22"},
            # `threads` are frames side by side. With these, or with reordering or a lookahead, closing the
            # encoder waits for a frame, and the interpreter with it. Its code for `cutree` writes beyond its
            # memory where a picture is not a multiple of its step.
            {
                "threads": "1",
                "x265-params": "log-level=none:info=0:pools=8:bframes=0:rc-lookahead=0:no-cutree=1:ctu=32",
            },
            {
                "preset": _PRESETS,
                "crf": _CRF,
                "bitrate": _BITRATE,
                "profile": Choice("profile", ("main",)),
                "gop": _GOP,
                "tune": Choice("tune", ("animation", "grain", "psnr", "ssim", "fastdecode", "zerolatency")),
            },
            min_side=34,  # with one block across, its files differ from run to run
            tag="hvc1",
        ),
        "libsvtav1": _codec(
            {"preset": "8", "crf": "20"},
            # Low delay: a reordering encoder has seconds of work in flight, for which closing it waits.
            {"svtav1-params": "pred-struct=1:lp=4"},
            {"preset": Number("preset", 0, 13), "crf": Number("crf", 1, 63), "gop": _GOP},
            min_side=32,  # with less and a side beyond 64 it hangs
            realtime=True,
        ),
        "h264_nvenc": _nvenc("baseline", "main", "high", cq=19, highest=51),
        "hevc_nvenc": _nvenc("main", cq=21, highest=51, tag="hvc1"),
        "av1_nvenc": _nvenc(cq=26, highest=63),
        "libvpx-vp9": _codec(
            {"deadline": "realtime", "cpu-used": "6", "crf": "24", "row-mt": "1"},
            {"threads": "4"},
            {
                "deadline": Choice("deadline", ("realtime", "good")),
                "cpu-used": Number("cpu-used", 0, 8),
                "crf": Number("crf", 0, 63),
                "bitrate": _BITRATE,
                "gop": _GOP,
                "threads": _THREADS,
            },
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
    _check_together(codec, given, resolved)
    return resolved


def _read(codec: str, name: str, value: object) -> tuple[str, str]:
    options = CODECS[codec].options
    if (option := options.get(name)) is None:
        raise InvalidOption(name, f"{_shown(name)} is no option of {codec}; allowed are {', '.join(options)}")
    if (text := option.read(value)) is None:
        raise InvalidOption(name, f"{name}: {_shown(value)} is not allowed with {codec}, {option.allowed} is")
    return option.ffmpeg, text


def _check_together(codec: str, given: Mapping[str, object], resolved: Mapping[str, str]) -> None:
    for quality in ("crf", "cq"):
        if "bitrate" in given and quality in given:
            raise InvalidOption(
                "bitrate", f"bitrate: {given['bitrate']} given beside {quality}; only one of them is allowed"
            )
    # Below 1, x264 codes without loss, which none of the profiles that players know has room for.
    if codec == "libx264" and "profile" in given and float(resolved.get("crf", 1)) < 1:
        raise InvalidOption(
            "profile", f"profile: {given['profile']} is not allowed with crf {given['crf']}, 1 or more is"
        )


def _shown(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > 64:  # Python refuses to print the longest
        return f"an integer of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"
