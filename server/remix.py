"""A remix: the source's parameters, with a new prompt and whatever else the request gives."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from anyio import to_thread

from pipelines.base import ModelInfo, Reference
from server.echo import shown
from server.errors import BadField, IllegalMove, VideoExpired
from server.jobs import Job, JobStatus
from server.lengths import frames_in
from server.params import Resolved, find_model, resolve
from server.parsing import ParsedRequest
from server.reference_schemas import ORDERED, ORDERED_KINDS, OrderedReference
from server.schemas import VideoGenerationRequest
from server.services import Services
from server.spool import Upload
from server.wav import seconds_of
from server.wire import rate_on_wire

SAME_NAMES = (
    "seed",
    "num_inference_steps",
    "guidance_scale",
    "guidance_scale_2",
    "boundary_ratio",
    "flow_shift",
    "negative_prompt",
    "max_sequence_length",
    "init_first_frame",
)
"""Fields that parameters and requests call the same."""


def check_source(job: Job) -> Job:
    """The job, if its video can be started from.

    Raises:
        IllegalMove: it is not completed.
    """
    if job.status is not JobStatus.COMPLETED:
        raise IllegalMove(f"video {job.id} is {job.status}; only a completed one can be started from")
    return job


async def remixed(
    parsed: ParsedRequest, source: Job, services: Services
) -> tuple[VideoGenerationRequest, Resolved]:
    """The whole request that a remix means, and its resolution.

    Raises:
        BadField: another model than the source's, or a value that it does not allow.
        ModelNotFound: the source's model is not served any more.
        VideoExpired: it started from a picture that is not kept any more, and the request gives none.
    """
    request, theirs = parsed.request, source.resolved
    whole = request.model_copy(update=await to_thread.run_sync(_taken_over, parsed, source))
    info = find_model(whole, services.capabilities)
    if info.id != theirs.params.model:
        raise BadField(
            "model", f"{shown(request.model)} is not allowed; the source has {theirs.params.model}"
        )
    if request.seconds is None and whole.seconds is not None and whole.fps is not None:
        _check_rate(whole.fps, whole.seconds, info)
    resolved = resolve(whole, services.capabilities, services.settings)
    if request.latent_path is None:
        resolved = replace(resolved, params=replace(resolved.params, latents=theirs.params.latents))
    if "video_codec_options" not in request.model_fields_set and resolved.codec == theirs.codec:
        resolved = replace(resolved, codec_options=theirs.codec_options)
    return whole, resolved


def _check_rate(fps: Fraction, seconds: Fraction, info: ModelInfo) -> None:
    """Raise BadField if as many `seconds` as the source has are too many frames at the rate asked for."""
    frames, limit = frames_in(seconds, fps), info.limits.max_num_frames
    if frames > limit:
        then = f"the source's {float(seconds):.6g} s would be {frames:,} frames then"
        raise BadField(
            "fps",
            f"{rate_on_wire(fps)} is not allowed; {then}, and {info.id} makes at most {limit}; "
            "num_frames or seconds takes their beginning",
        )


def _taken_over(parsed: ParsedRequest, source: Job) -> dict[str, Any]:
    """What the request does not say, as the source has it."""
    request = parsed.request
    theirs, params = source.resolved, source.resolved.params
    values: dict[str, Any] = {name: getattr(params, name) for name in SAME_NAMES}
    values |= {
        "model": params.model,
        "fps": theirs.fps,
        "n": params.num_outputs,
        "output_format": theirs.format,
    }
    if request.width is None and request.height is None:
        values["size"] = f"{params.width}x{params.height}"
    if request.num_frames is None and request.seconds is None and request.audio_reference is None:
        values |= _length(request.fps, source)
    for field, file in (("audio_reference", params.audio), ("video_reference", params.video)):
        if file is not None and getattr(request, field) is None:
            values[field] = _kept(parsed, file, field, source)
    if request.references is None:  # they stand instead of a first and last frame
        for field, picture in (("input_reference", params.image), ("last_image", params.last_image)):
            if picture is not None and getattr(request, field) is None:
                values[field] = _kept(parsed, picture, field, source)
    if request.input_reference is None and request.last_image is None and request.references is None:
        ordered = [_kept_reference(parsed, each, source) for each in params.references]
        values[ORDERED] = ordered or None
    return {name: value for name, value in values.items() if getattr(request, name) is None}


def _length(fps: Fraction | None, source: Job) -> dict[str, Any]:
    """What makes a remix at `fps`, if that is given, as long as its source.

    That is its frames; but a video that speaks lasts as long as its sound, or the part of that that it has.
    """
    params, theirs = source.resolved.params, source.resolved.fps
    if params.audio is None or fps in (None, theirs):
        return {"num_frames": params.num_frames}
    with _if_kept("audio_reference", source):
        whole = frames_in(seconds_of(params.audio), theirs) == params.num_frames
    return {} if whole else {"seconds": params.num_frames / theirs}


def _kept_reference(parsed: ParsedRequest, reference: Reference, source: Job) -> OrderedReference:
    (key,) = (key for key, kind in ORDERED_KINDS.items() if kind == reference.kind)
    return OrderedReference.model_validate({key: _kept(parsed, reference.path, ORDERED, source)})


def _kept(parsed: ParsedRequest, file: Path, field: str, source: Job) -> Upload:
    with _if_kept(field, source):
        return parsed.spool.copy_of(file)


@contextmanager
def _if_kept(field: str, source: Job) -> Iterator[None]:
    """A file of the source is read within the block."""
    try:
        yield
    except FileNotFoundError:
        problem = f"{field}: the file of video {source.id} is not kept any more; send it again"
        raise VideoExpired(problem, param=field) from None
