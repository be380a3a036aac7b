"""The files behind a request's references, stored where its worker reads them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pipelines.base import Reference, ReferenceKind, ReferenceLimits
from server.engine.base import Capabilities
from server.lengths import as_long_as_sound, check_work, referenced
from server.params import Resolved, find_model
from server.reference_schemas import ORDERED
from server.reference_schemas import Reference as Source
from server.references import References
from server.schemas import VideoGenerationRequest
from server.shapes import Shape
from server.wav import seconds_of

ALONE: Mapping[str, tuple[str, ReferenceKind]] = MappingProxyType(
    {
        "input_reference": ("image", "image"),
        "last_image": ("last_image", "image"),
        "audio_reference": ("audio", "audio"),
        "video_reference": ("video", "video"),
    }
)
"""Fields of a single reference: its name in `GenerationParams`, and its kind."""


async def with_references(
    resolved: Resolved,
    request: VideoGenerationRequest,
    capabilities: Capabilities,
    references: References,
    make_folder: Callable[[], Path],
) -> Resolved:
    """`resolved` with the checked files behind the request's references, and as long as their sound says.

    `make_folder` is called, in a thread, where there is a file to be stored; it may be called again.

    Raises:
        BadField: a reference that is not taken, or too long. What `References` raises.
    """
    stored: dict[str, Any] = {}
    for field, (param, kind) in ALONE.items():
        reference = getattr(request, field)
        if reference is not None:
            folder = await asyncio.to_thread(make_folder)
            stored[param], _ = await _stored(kind, reference, field, folder / field, references)
    info = find_model(request, capabilities)
    if "audio" in stored:
        seconds = await asyncio.to_thread(seconds_of, stored["audio"])
        resolved = as_long_as_sound(resolved, request, info, seconds)
    if request.references and info.references is not None:
        folder, made, work = await asyncio.to_thread(make_folder), [], 0
        for index, each in enumerate(request.references):
            field, stem = f"{ORDERED}[{index}]", folder / f"{ORDERED}_{index}"
            path, shape = await _stored(each.kind, each.source, field, stem, references, info.references)
            made.append(Reference(each.kind, path))
            if shape is not None:
                work += referenced(shape, each.kind, resolved.params.num_frames, info)
        check_work(resolved.params, request, info, work)
        stored["references"] = tuple(made)
    return replace(resolved, params=replace(resolved.params, **stored))


async def _stored(
    kind: ReferenceKind,
    source: Source,
    field: str,
    stem: Path,
    references: References,
    ordered: ReferenceLimits | None = None,
) -> tuple[Path, Shape | None]:
    """The file, `stem` with the suffix of its kind, and the shape of what can be seen.

    One that stands alone is heard, or only seen; the `ordered` ones keep to what their model can use, and
    films keep their sound.
    """
    shape: Shape | None = None
    longest, least = (None, None) if ordered is None else (ordered.max_aspect, ordered.min_video_s)
    match kind:
        case "image":
            path = stem.with_suffix(".png")
            shape = await references.store_image(source, field, path, max_aspect=longest)
        case "audio":
            path = stem.with_suffix(".wav")
            await references.store_audio(source, field, path, audible=ordered is None)
        case "video":
            path = stem.with_suffix(".mkv")
            shape = await references.store_video(
                source, field, path, sound=ordered is not None, max_aspect=longest, min_seconds=least
            )
    return path, shape
