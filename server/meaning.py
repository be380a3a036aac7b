"""From fields, whatever dialect they came in, to the one request that they mean."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from pydantic import ValidationError

from server.echo import shown
from server.errors import BadField, DuplicateField, MissingField, UnknownField
from server.jsontext import BadJson, read_json
from server.kinds import CANONICAL, SCALARS, allowed, spellings
from server.reference_schemas import MAX_ORDERED, ORDERED, REFERENCES, Named, OrderedReference
from server.scalars import Unreadable, read_text
from server.schemas import TOLERATED, TOP_LEVEL_ONLY, VideoGenerationRequest
from server.spool import Upload
from server.values import Fields, Number, Sent, Value

CODEC_OPTIONS = "video_codec_options"
EXTRA = "extra_params"
VIDEO = "video"
_VIDEO_WAYS = "send a file, or an object with the id of a video"

_INDEX = re.compile(r"0|[1-9]\d{0,8}", re.ASCII)

Source = Upload | str
"""The video that an edit starts from: a file, or the id of a finished one."""

_ORDERED_WAYS = (
    "it must be an object with one of image_url, video_url and audio_url; in a form number them, as in "
    "references[0][image_url], or send one JSON text"
)


@dataclass(frozen=True, slots=True)
class Meaning:
    """A request, the unknown fields beside it, and the client's names for the fields it gave."""

    request: VideoGenerationRequest
    unknown: tuple[str, ...]
    names: Mapping[str, str]


def understand(fields: Fields, *, refuse_unknown: bool) -> Meaning:
    """Give each field its meaning; what was not given stays out.

    Raises:
        BadField: a field that is unknown (if `refuse_unknown`), given twice, of the wrong kind or out of
            its bounds; a prompt that is missing.
    """
    given: dict[str, Sent] = {}
    sents = [Sent(name, name, value, fields.bracketed.get(name)) for name, value in fields.values.items()]
    unknown = _collect(sents, given)
    if unknown and refuse_unknown:
        raise _unknown_field(unknown[0], CANONICAL)
    if (extras := given.pop(EXTRA, None)) is not None:
        _collect_extras(extras, given)
    if "prompt" not in given:
        raise MissingField("prompt", "is required")
    values = {field: _read(field, sent) for field, sent in given.items() if field != ORDERED}
    items = list(_items(given[ORDERED])) if ORDERED in given else []
    if items:
        values[ORDERED] = [_read_ordered(item) for item in items]
    request = _validated(values, given)
    return Meaning(request, tuple(sent.name for sent in unknown), dict(_names(given, items, request)))


def take_video(fields: Fields) -> tuple[Source, Fields]:
    """The field `video` of an edit or an extension, and the other fields.

    Raises:
        MissingField: there is none.
        BadField: neither a file nor `{id}`.
    """
    value = fields.values.get(VIDEO)
    others = Fields({name: other for name, other in fields.values.items() if name != VIDEO}, fields.bracketed)
    if value is None or value == "":
        raise MissingField(VIDEO, f"is required; {_VIDEO_WAYS}")
    if isinstance(value, Upload):
        return value, others
    sent = Sent(VIDEO, VIDEO, value, fields.bracketed.get(VIDEO))
    named = list(_children(sent))
    if [child.key for child in named] != ["id"]:
        raise BadField(sent.spelling, _VIDEO_WAYS)
    return _read_name(named[0]), others


def _collect(sents: Iterable[Sent], given: dict[str, Sent]) -> list[Sent]:
    """Sort fields into `given` by their own names; returns those that no field is called."""
    unknown = []
    for sent in sents:
        field = CANONICAL.get(sent.key)
        if field is None:
            unknown.append(sent)
        elif field in TOLERATED:
            _tolerate(field, sent)
        elif _is_given(field, sent.value):
            if field in given:
                raise DuplicateField(sent.spelling, f"is given already, as {given[field].spelling}")
            given[field] = sent
    return unknown


def _collect_extras(extras: Sent, given: dict[str, Sent]) -> None:
    """What `extra_params` holds counts as if it stood beside it."""
    children = list(_children(extras))
    for child in children:
        if CANONICAL.get(child.key) in TOP_LEVEL_ONLY:
            raise BadField(child.spelling, f"belongs beside {extras.key}, not into it")
    if unknown := _collect(children, given):
        inner = [name for name, field in CANONICAL.items() if field not in TOP_LEVEL_ONLY | TOLERATED]
        raise _unknown_field(unknown[0], inner)


def _tolerate(field: str, sent: Sent) -> None:
    if field == "characters" and sent.value not in (None, "", "[]", []):
        raise BadField(sent.spelling, "characters are not supported; leave it out or empty")


def _is_given(field: str, value: Value) -> bool:
    """null and "" are "not given" but where they say something of their own."""
    if value is None:
        return field == CODEC_OPTIONS
    return value not in ("", []) or field == "negative_prompt"


def _unknown_field(sent: Sent, names: Iterable[str]) -> UnknownField:
    known = sorted(names)
    close = get_close_matches(sent.key[:100], known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
    return UnknownField(sent.spelling, f"is not a field here; {hint}")


def _read(field: str, sent: Sent) -> object:
    if field in REFERENCES:
        return _read_reference(sent, REFERENCES[field])
    if field == CODEC_OPTIONS:
        return dict(_read_options(sent))
    try:
        return SCALARS[field].read(sent.value)
    except Unreadable as error:
        raise _refused(field, sent, error.why or "is not allowed") from None


def _refused(field: str, sent: Sent, why: str) -> BadField:
    return BadField(sent.spelling, f"{shown(sent.value)} {why}; it must be {allowed(field)}")


def _read_reference(sent: Sent, kind: type[Named]) -> Upload | Named:
    """A file, an object with one name for it, or a bare URL."""
    value = sent.value
    ways = f"it must be a file, a data: URI or an object with either {kind.url_key()} or file_id"
    if isinstance(value, Upload):
        return value
    if isinstance(value, str) and not isinstance(value, Number) and not value.lstrip().startswith("{"):
        return kind.model_validate({kind.url_key(): _read_name(sent)})
    if not isinstance(value, str | dict) or isinstance(value, Number):
        raise BadField(sent.spelling, f"{shown(value)} is not allowed; {ways}")
    named = [child for child in _children(sent) if child.value not in (None, "")]
    known = {name for field in kind.model_fields for name in spellings(field, kind)}
    for child in named:
        if child.key not in known:
            raise _unknown_field(child, kind.model_fields)
    if len(named) != 1:
        raise BadField(sent.spelling, ways)
    return kind.model_validate({named[0].key: _read_name(named[0])})


def _items(sent: Sent) -> Iterator[Sent]:
    """The elements of a list, which a form may have numbered, or sent as one JSON text."""
    value = sent.value
    if isinstance(value, str) and not isinstance(value, Number):
        value = _nested_json(sent, value)
    if isinstance(value, list):
        value = {str(index): item for index, item in enumerate(value)}
    if not isinstance(value, dict) or not all(map(_INDEX.fullmatch, value)):
        raise BadField(sent.spelling, f"{shown(value)} is not allowed; it must be a list")
    if len(value) > MAX_ORDERED:
        raise BadField(sent.spelling, f"{len(value)} are too many; at most {MAX_ORDERED} are allowed")
    return (sent.item(index, value[index]) for index in sorted(value, key=int))


def _read_ordered(sent: Sent) -> OrderedReference:
    """An object that says by its one key what it is."""
    if not isinstance(sent.value, dict):
        raise BadField(sent.spelling, f"{shown(sent.value)} is not allowed; {_ORDERED_WAYS}")
    given = [child for child in _children(sent) if child.value not in (None, "")]
    for child in given:
        if child.key not in OrderedReference.model_fields:
            raise _unknown_field(child, OrderedReference.model_fields)
    if len(given) != 1:
        raise BadField(sent.spelling, _ORDERED_WAYS)
    (one,) = given
    value = one.value if isinstance(one.value, Upload) else _read_name(one)
    return OrderedReference.model_validate({one.key: value})


def _read_name(sent: Sent) -> str:
    try:
        return read_text(sent.value).strip()
    except Unreadable as error:
        raise BadField(
            sent.spelling, f"{shown(sent.value)} {error.why or 'is not allowed'}; it must be text"
        ) from None


def _read_options(sent: Sent) -> Iterator[tuple[str, str]]:
    """An encoder's options as FFmpeg takes them: all text. null: none of our defaults either."""
    for option in _children(sent):
        value = option.value
        if isinstance(value, bool):
            yield option.key, str(value).lower()
        elif isinstance(value, str):
            if value != "":
                yield option.key, str(value)
        elif value is not None:
            raise BadField(option.spelling, f"{shown(value)} is not allowed; it must be text or a number")


def _children(sent: Sent) -> Iterator[Sent]:
    """The fields of an object, which a form may have sent as one JSON text; null has none."""
    value = sent.value
    if isinstance(value, str) and not isinstance(value, Number):
        value = _nested_json(sent, value)
    if value is not None and not isinstance(value, dict):
        raise BadField(sent.spelling, f"{shown(value)} is not allowed; it must be an object")
    return (sent.child(key, inner) for key, inner in (value or {}).items())


def _nested_json(sent: Sent, text: str) -> Value:
    try:
        return read_json(text)
    except BadJson as error:
        raise BadField(sent.spelling, f"is not valid JSON: {error}") from None
    except DuplicateField as error:
        error.rename(sent.name_of(str(error.param)))
        raise


def _validated(values: Mapping[str, object], given: Mapping[str, Sent]) -> VideoGenerationRequest:
    try:
        return VideoGenerationRequest.model_validate(values)
    except ValidationError as error:
        field = str(error.errors(include_url=False)[0]["loc"][0])
        raise _refused(field, given[field], "is not allowed") from None


def _names(
    given: Mapping[str, Sent], items: Sequence[Sent], request: VideoGenerationRequest
) -> Iterator[tuple[str, str]]:
    for field, sent in given.items():
        yield field, sent.spelling
    for index, (item, reference) in enumerate(zip(items, request.references or (), strict=True)):
        yield f"{ORDERED}[{index}]", item.name_of(reference.key)
    for option in request.video_codec_options or {}:
        yield f"{CODEC_OPTIONS}.{option}", given[CODEC_OPTIONS].name_of(option)
