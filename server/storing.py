"""The files behind a request's references, stored where its worker reads them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pipelines.base import Reference
from server.engine.base import Capabilities
from server.lengths import as_long_as_sound
from server.params import Resolved, find_model
from server.reference_schemas import ORDERED, OrderedReference
from server.references import References
from server.schemas import VideoGenerationRequest
from server.wav import seconds_of


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
    for field, param, suffix, store in (
        ("input_reference", "image", "png", references.store_image),
        ("last_image", "last_image", "png", references.store_image),
        ("audio_reference", "audio", "wav", partial(references.store_audio, audible=True)),
        ("video_reference", "video", "mkv", references.store_video),
    ):
        reference = getattr(request, field)
        if reference is not None:
            folder = await asyncio.to_thread(make_folder)
            stored[param] = folder / f"{field}.{suffix}"
            await store(reference, field, stored[param])
    info = find_model(request, capabilities)
    if "audio" in stored:
        seconds = await asyncio.to_thread(seconds_of, stored["audio"])
        resolved = as_long_as_sound(resolved, request, info, seconds)
    if request.references and info.references is not None:
        folder, longest = await asyncio.to_thread(make_folder), info.references.max_aspect
        stored["references"] = tuple(
            [
                await _stored(each, f"{ORDERED}[{index}]", folder / f"{ORDERED}_{index}", references, longest)
                for index, each in enumerate(request.references)
            ]
        )
    return replace(resolved, params=replace(resolved.params, **stored))


async def _stored(
    reference: OrderedReference, field: str, stem: Path, references: References, longest: float | None
) -> Reference:
    kind, source = reference.kind, reference.source
    match kind:
        case "image":
            path = stem.with_suffix(".png")
            await references.store_image(source, field, path, max_aspect=longest)
        case "audio":
            path = stem.with_suffix(".wav")
            await references.store_audio(source, field, path)
        case "video":
            path = stem.with_suffix(".mkv")
            await references.store_video(source, field, path, sound=True, max_aspect=longest)
    return Reference(kind, path)
