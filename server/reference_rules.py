"""Which references a request may hold, by what its model says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pipelines.base import ModelInfo, ReferenceKind, ReferenceLimits, ReferenceUse
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
    _check_single(request, info)
    if request.last_image is not None and not info.last_image:
        among = "" if info.references is None else f"; it takes {NOUNS['image']} in {ORDERED}"
        raise BadField("last_image", f"is not allowed; {info.id} cannot end at a given picture{among}")
    if request.last_image is not None and request.input_reference is None and not info.last_image_alone:
        raise BadField("last_image", "is not allowed without input_reference")
    if request.init_first_frame and not info.lasts_as_sound:
        raise BadField("init_first_frame", f"true is not allowed; {info.id} does not speak")
    _check_ordered(request, info)


def _check_single(request: VideoGenerationRequest, info: ModelInfo) -> None:
    uses: tuple[tuple[str, ReferenceUse, ReferenceKind], ...] = (
        ("input_reference", info.image, "image"),
        ("audio_reference", info.audio, "audio"),
        ("video_reference", info.video, "video"),
    )
    for field, use, kind in uses:
        given, noun = getattr(request, field) is not None, NOUNS[kind].removesuffix("s")
        if given and use == "none":
            among = info.references is not None and info.references.of(kind) > 0
            takes = f"takes {NOUNS[kind]} in {ORDERED}" if among else f"takes no {noun}"
            raise BadField(field, f"is not allowed; {info.id} {takes}")
        if not given and use == "required":
            raise MissingField(field, f"is required; {info.id} starts from a {noun}")


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
    _check_kinds([reference.kind for reference in given], limits, info)


def _check_kinds(kinds: list[ReferenceKind], limits: ReferenceLimits, info: ModelInfo) -> None:
    for kind, noun in NOUNS.items():
        if kinds.count(kind) > limits.of(kind):
            without = kind == "video" and limits.no_videos
            most = f"none; {without}" if without else f"at most {limits.of(kind)}"
            raise BadField(ORDERED, f"{kinds.count(kind)} {noun} are not allowed; {info.id} takes {most}")
    if len(kinds) > limits.total:
        raise BadField(
            ORDERED, f"{len(kinds)} are not allowed; {info.id} takes at most {limits.total} in all"
        )
    if set(kinds) == {"audio"}:
        raise BadField(ORDERED, "sounds alone are not allowed; a picture or a film must be among them")
