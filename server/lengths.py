"""How long a video will be, and how much work it is, against the operator's limits."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import floor
from typing import TYPE_CHECKING

from pipelines.base import GenerationParams, ModelInfo, ReferenceKind
from server.errors import BadField
from server.schemas import VideoGenerationRequest
from server.shapes import Shape
from server.wire import rate_on_wire

if TYPE_CHECKING:
    from server.params import Resolved


def num_frames(request: VideoGenerationRequest, info: ModelInfo, fps: Fraction) -> int:
    """The frames that a request asks for; the model's default where it leaves that open.

    Raises:
        BadField: more than the model makes.
    """
    limit = info.limits.max_num_frames
    if request.num_frames is not None:
        if request.num_frames > limit:
            raise BadField(
                "num_frames", f"{request.num_frames} is not allowed; {info.id} makes at most {limit}"
            )
        return request.num_frames
    if request.seconds is None:
        return info.defaults.num_frames
    frames = frames_in(request.seconds, fps)
    if frames > limit:
        raise BadField("seconds", f"{float(request.seconds):g} is not allowed; {_longest(limit, fps)}")
    return frames


def waits_for_sound(request: VideoGenerationRequest, info: ModelInfo) -> bool:
    """Whether only the sound of the request tells how long its video is."""
    return info.lasts_as_sound and request.num_frames is None and request.seconds is None


def as_long_as_sound(
    resolved: Resolved, request: VideoGenerationRequest, info: ModelInfo, seconds: Fraction
) -> Resolved:
    """`resolved`, as long as the sound of its reference, `seconds`, where nothing else says how long.

    Raises:
        BadField: the sound is longer than what the model makes, or too much work.
    """
    if not waits_for_sound(request, info):
        return resolved
    frames, limit = frames_in(seconds, resolved.fps), info.limits.max_num_frames
    if frames > limit:
        lasts = f"lasts {float(seconds):.6g} s, {frames:,} frames; {_longest(limit, resolved.fps)}"
        raise BadField("audio_reference", f"{lasts}; num_frames or seconds takes its beginning")
    params = replace(resolved.params, num_frames=frames)
    check_work(params, request, info)
    return replace(resolved, params=params)


def check_work(
    params: GenerationParams, request: VideoGenerationRequest, info: ModelInfo, references: int = 0
) -> None:
    """Each field may be within its bounds, and all of them together hours of a device.

    `references`: what they add, in pixels × frames of a video.

    Raises:
        BadField: on the field that is furthest above the model's default.
    """
    limit = info.limits.max_pixel_frame_steps
    side, frames = info.grid.side, info.grid.frames(params.num_frames)
    pixels, steps, videos = (
        side(params.width) * side(params.height),
        params.num_inference_steps,
        params.num_outputs,
    )
    work = (pixels * frames + references) * steps * videos
    if limit is None or work <= limit:
        return
    defaults = info.defaults
    longer = frames / defaults.num_frames
    excess = {
        "n": float(videos),
        "num_inference_steps": steps / defaults.num_inference_steps,
        "num_frames": longer,
        "seconds": longer,
        "size": pixels / (defaults.width * defaults.height),
        "width": pixels / (defaults.width * defaults.height),
    }
    if references:
        excess["references"] = 1 + references / (defaults.width * defaults.height * defaults.num_frames)
    if waits_for_sound(request, info):
        excess["audio_reference"] = longer
    given = [name for name in excess if getattr(request, name) is not None]
    blamed = max(given, key=excess.__getitem__, default="num_inference_steps")
    video = f"{pixels:,} pixels × {frames} frames"
    if references:
        video = f"({video} + {references:,} of the references)"
    counted = f"{video} × {steps} steps × {videos} videos are {work:,}"
    raise BadField(
        blamed, f"asks for too much together with the other fields: {counted}, and {info.id} does {limit:,}"
    )


def referenced(shape: Shape, kind: ReferenceKind, num_frames: int, info: ModelInfo) -> int:
    """What a reference that is seen adds to the work of each step, in pixels × frames of a video."""
    work = None if info.references is None else info.references.work
    if work is None:
        return 0
    if kind == "image":
        return work.of_picture(shape.width, shape.height)
    fps = info.defaults.fps if info.grid.fps is None else info.grid.fps
    frames = min(frames_in(Fraction(shape.seconds), fps), info.grid.frames(num_frames))
    return work.of_film(shape.width, shape.height, frames)


def frames_in(seconds: Fraction, fps: Fraction) -> int:
    """The frames of a video of `seconds` at `fps` a second, one at least."""
    return max(1, floor(seconds * fps + Fraction(1, 2)))


def _longest(limit: int, fps: Fraction) -> str:
    longest = floor(limit / fps * 1000) / 1000
    return f"the longest is {longest:g} s ({limit} frames at {rate_on_wire(fps)} frames per second)"
