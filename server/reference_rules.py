"""Which references a request may hold, by what its model says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pipelines.base import ModelInfo, ReferenceKind
from server.errors import BadField, MissingField
from server.reference_schemas import ORDERED
from server.schemas import VideoGenerationRequest

NOUNS: Mapping[ReferenceKind, str] = MappingProxyType(
    {"image": "pictures", "video": "films", "audio": "sounds"}
)


def check_references(request: VideoGenerationRequest, info: ModelInfo) -> None:
    """Check that the model takes what is given, and is given what it needs.

    Raises:
        MissingField: it needs a picture, a sound, a film or references.
        BadField: it has no use for one that is given, or not for so many, or not together.
    """
    for field, use, noun in (
        ("input_reference", info.image, "picture"),
        ("audio_reference", info.audio, "sound"),
        ("video_reference", info.video, "film"),
    ):
        given = getattr(request, field) is not None
        if given and use == "none":
            raise BadField(field, f"is not allowed; {info.id} takes no {noun}")
        if not given and use == "required":
            raise MissingField(field, f"is required; {info.id} starts from a {noun}")
    if request.last_image is not None and not info.last_image:
        raise BadField("last_image", f"is not allowed; {info.id} cannot end at a given picture")
    if request.last_image is not None and request.input_reference is None and not info.last_image_alone:
        raise BadField("last_image", "is not allowed without input_reference")
    if request.init_first_frame and not info.lasts_as_sound:
        raise BadField("init_first_frame", f"true is not allowed; {info.id} does not speak")
    _check_ordered(request, info)


def _check_ordered(request: VideoGenerationRequest, info: ModelInfo) -> None:
    limits, given = info.references, request.references
    if given is None:
        if limits is not None and limits.required:
            raise MissingField(ORDERED, f"is required; {info.id} starts from references")
        return
    if limits is None:
        raise BadField(ORDERED, f"is not allowed; {info.id} takes none")
    for field in ("input_reference", "last_image"):
        if getattr(request, field) is not None:
            raise BadField(field, f"is not allowed together with {ORDERED}; give one or the other")
    kinds = [reference.kind for reference in given]
    for kind, noun in NOUNS.items():
        if kinds.count(kind) > limits.of(kind):
            most = f"{info.id} takes at most {limits.of(kind)}"
            raise BadField(ORDERED, f"{kinds.count(kind)} {noun} are not allowed; {most}")
    if len(kinds) > limits.total:
        raise BadField(
            ORDERED, f"{len(kinds)} are not allowed; {info.id} takes at most {limits.total} in all"
        )
    if set(kinds) == {"audio"}:
        raise BadField(ORDERED, "sounds alone are not allowed; a picture or a film must be among them")
