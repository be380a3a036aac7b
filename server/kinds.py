"""The kind of value that each request field takes: how it is read, and how a message says what is allowed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import get_args

from annotated_types import Ge, Gt, Le, MaxLen, MultipleOf
from pydantic import AliasChoices, BaseModel

from encoding.formats import ALIASES, FORMATS
from server.scalars import (
    read_bool,
    read_exact,
    read_float,
    read_int,
    read_prompt,
    read_rate,
    read_size,
    read_text,
    read_word,
)
from server.schemas import ResponseFormat, VideoGenerationRequest
from server.values import Value

RESPONSE_ALIASES: Mapping[str, str] = MappingProxyType({"file": "video_bytes", "path": "video_path"})


@dataclass(frozen=True, slots=True)
class Kind:
    """`read` raises `Unreadable` for what has no meaning; `noun` ends "it must be …"."""

    read: Callable[[Value], object]
    noun: str


def _read_response_format(value: Value) -> str:
    word = read_word(value)
    return RESPONSE_ALIASES.get(word, word)


_TEXT = Kind(read_text, "text")
_PROMPT = Kind(read_prompt, "text that is not blank")
_INT = Kind(read_int, "an integer")
_FLOAT = Kind(read_float, "a number")
_SIZE = Kind(read_size, '"WxH" in pixels, such as "832x480", or "auto"')
_RATE = Kind(read_rate, 'a number or a fraction such as "24000/1001"')
_BOOL = Kind(read_bool, "true or false")
_FORMAT = Kind(read_word, f"one of {', '.join([*FORMATS, *ALIASES])}")
_RESPONSE = Kind(_read_response_format, f"one of {', '.join([*get_args(ResponseFormat), *RESPONSE_ALIASES])}")

SCALARS: Mapping[str, Kind] = MappingProxyType(
    {
        "prompt": _PROMPT,
        "model": _TEXT,
        "size": _SIZE,
        "width": _INT,
        "height": _INT,
        "seconds": Kind(read_exact, "a number of seconds"),
        "fps": _RATE,
        "num_frames": _INT,
        "seed": _INT,
        "num_inference_steps": _INT,
        "guidance_scale": _FLOAT,
        "guidance_scale_2": _FLOAT,
        "boundary_ratio": _FLOAT,
        "flow_shift": _FLOAT,
        "negative_prompt": _TEXT,
        "max_sequence_length": _INT,
        "n": _INT,
        "output_format": _FORMAT,
        "response_format": _RESPONSE,
        "stream": _BOOL,
        "init_first_frame": _BOOL,
        "latent_path": _TEXT,
    }
)
"""Every field with a single value."""


def spellings(field: str, of: type[BaseModel] = VideoGenerationRequest) -> tuple[str, ...]:
    """The names that a field goes by, its own first."""
    choices = of.model_fields[field].validation_alias
    return tuple(map(str, choices.choices)) if isinstance(choices, AliasChoices) else (field,)


CANONICAL: Mapping[str, str] = MappingProxyType(
    {name: field for field in VideoGenerationRequest.model_fields for name in spellings(field)}
)
"""Field by each of its spellings."""


def allowed(field: str) -> str:
    """What a field of `SCALARS` takes, for "it must be …": its kind, and the bounds of the schema."""
    bounds = VideoGenerationRequest.model_fields[field].metadata
    return ", ".join([SCALARS[field].noun, *filter(None, map(_phrase, bounds))])


def _phrase(bound: object) -> str:
    match bound:
        case Ge(ge=low):
            return f"at least {low}"
        case Gt(gt=low):
            return f"greater than {low}"
        case Le(le=high):
            return f"at most {high}"
        case MultipleOf(multiple_of=step):
            return f"a multiple of {step}"
        case MaxLen(max_length=length):
            return f"at most {length:,} characters"
        case _:
            return ""
