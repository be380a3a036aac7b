"""A request, a model's defaults and the operator's limits → numbers. The only place that fills defaults.

Whatever can be known before a job is queued is refused here, with the field, its value and what is allowed.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TypeVar

from encoding import options
from encoding.errors import InvalidOption
from encoding.formats import ALIASES, FORMATS, Format
from pipelines.base import GenerationParams, ModelDefaults, ModelInfo, SoundFormat
from server.echo import shown
from server.engine.base import Capabilities
from server.errors import BadField, ModelNotFound
from server.kinds import allowed
from server.lengths import check_work, num_frames, waits_for_sound
from server.reference_rules import check_references
from server.schemas import MAX_SEED, ResponseFormat, VideoGenerationRequest
from server.settings import Settings
from server.wire import rate_on_wire

LATENT_SUFFIXES = (".pt", ".safetensors")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Resolved:
    """What will be made, and how it will be answered.

    The references in `params` are None until they are stored; until then the length of a video that lasts as
    long as its sound is the model's default.
    """

    params: GenerationParams
    format: str
    """Key of `encoding.formats.FORMATS`."""
    fps: Fraction
    codec_options: Mapping[str, str]
    response_format: ResponseFormat
    stream: bool
    codec: str | None = None
    """FFmpeg's name of the encoder whose options these are; None for raw frames."""
    sound: SoundFormat | None = None
    """What the model makes beside the pictures; None: the video is silent."""


def resolve(request: VideoGenerationRequest, capabilities: Capabilities, settings: Settings) -> Resolved:
    """Fill every default and check every bound that a worker's report lets us know.

    Raises:
        ModelNotFound: a model that is not served.
        BadField: a value that this model or this server does not allow.
    """
    info = find_model(request, capabilities)
    _check_unused(request, info)
    _check_prompt(request, info)
    check_references(request, info)
    output = _format(request, info, capabilities)
    fps = _fps(request, info)
    params = _params(request, info, fps, settings)
    if not waits_for_sound(request, info):
        check_work(params, request, info)
    codec = settings.encoding.mp4_codec if output.name == "mp4" else output.codec
    _check_encoder(codec, params, request)
    return Resolved(
        params=params,
        format=output.name,
        fps=fps,
        codec_options=_codec_options(request, codec),
        response_format=_response_format(request, settings),
        stream=_stream(request, output),
        codec=codec,
        sound=info.sound,
    )


def _params(
    request: VideoGenerationRequest, info: ModelInfo, fps: Fraction, settings: Settings
) -> GenerationParams:
    defaults = info.defaults
    width, height = _size(request, info)
    return GenerationParams(
        model=info.id,
        prompt=request.prompt,
        negative_prompt=_or(request.negative_prompt, defaults.negative_prompt),
        width=width,
        height=height,
        num_frames=num_frames(request, info, fps),
        seed=secrets.randbelow(MAX_SEED + 1) if request.seed is None else request.seed,
        num_inference_steps=_or(request.num_inference_steps, defaults.num_inference_steps),
        guidance_scale=_or(request.guidance_scale, defaults.guidance_scale),
        guidance_scale_2=_or(request.guidance_scale_2, defaults.guidance_scale_2),
        boundary_ratio=_or(request.boundary_ratio, defaults.boundary_ratio),
        flow_shift=_or(request.flow_shift, defaults.flow_shift),
        max_sequence_length=_or(request.max_sequence_length, defaults.max_sequence_length),
        num_outputs=_or(request.n, 1),
        latents=_latents(request, settings),
        fps=fps,
        init_first_frame=_or(request.init_first_frame, False),
    )


def _or(value: T | None, default: T) -> T:
    return default if value is None else value


def find_model(request: VideoGenerationRequest, capabilities: Capabilities) -> ModelInfo:
    """The model that a request names by id or alias; the first one if it names none.

    Raises:
        ModelNotFound: it is not served.
    """
    if request.model is None:
        return capabilities.models[0]
    for info in capabilities.models:
        if request.model == info.id or request.model in info.aliases:
            return info
    served = ", ".join(" = ".join([info.id, *info.aliases]) for info in capabilities.models)
    raise ModelNotFound(f"model: {shown(request.model)} is not served; there are {served}", param="model")


def _check_unused(request: VideoGenerationRequest, info: ModelInfo) -> None:
    for field, why in info.unused.items():
        value = getattr(request, field)
        if value not in (None, ""):
            raise BadField(field, f"{shown(value)} is not allowed; {info.id} {why}")


def _check_prompt(request: VideoGenerationRequest, info: ModelInfo) -> None:
    for word, why in info.reserved.items():
        if word in request.prompt:
            raise BadField("prompt", f"{shown(word)} is not allowed for {info.id}; there it {why}")


def _size(request: VideoGenerationRequest, info: ModelInfo) -> tuple[int, int]:
    field = _size_field(request)
    width, height = _wanted_size(request, info.defaults)
    if width % 2 or height % 2:
        raise BadField(field, f"{width}x{height} is not allowed; both sides must be even")
    # Multiplied as the model will make it: a picture just over a grid line costs the next one.
    pixels = info.grid.side(width) * info.grid.side(height)
    if pixels > info.limits.max_pixels:
        limit = f"{info.id} makes at most {info.limits.max_pixels:,}"
        raise BadField(field, f"{width}x{height} is not allowed: it takes {pixels:,} pixels, and {limit}")
    return width, height


def _size_field(request: VideoGenerationRequest) -> str:
    return "width" if request.size is None and request.width is not None else "size"


def _wanted_size(request: VideoGenerationRequest, defaults: ModelDefaults) -> tuple[int, int]:
    default = (defaults.width, defaults.height)
    sides = _sides(request)
    if request.size is None:
        return _or(sides, default)
    named = default if request.size == "auto" else _split(request.size)
    if sides not in (None, named):
        raise BadField("size", f"{shown(request.size)} contradicts width and height; give one or the other")
    return named


def _split(size: str) -> tuple[int, int]:
    width, height = size.split("x")
    return int(width), int(height)


def _sides(request: VideoGenerationRequest) -> tuple[int, int] | None:
    if request.width is None and request.height is None:
        return None
    if request.height is None:
        raise BadField("width", f"{request.width} needs a height beside it")
    if request.width is None:
        raise BadField("height", f"{request.height} needs a width beside it")
    return request.width, request.height


def _fps(request: VideoGenerationRequest, info: ModelInfo) -> Fraction:
    fps, only = _or(request.fps, info.defaults.fps), info.grid.fps
    if only is not None and fps != only:
        raise BadField(
            "fps", f"{rate_on_wire(fps)} is not allowed; {info.id} makes {rate_on_wire(only)} frames a second"
        )
    return fps


def _format(request: VideoGenerationRequest, info: ModelInfo, capabilities: Capabilities) -> Format:
    given = _or(request.output_format, "auto")
    output = FORMATS.get(ALIASES.get(given, given))
    if output is None:
        raise BadField(
            "output_format", f"{shown(given)} is not allowed; it must be {allowed('output_format')}"
        )
    if output.name not in capabilities.formats:
        there = ", ".join(capabilities.formats)
        raise BadField("output_format", f"{shown(given)} cannot be made on this server; there are {there}")
    if info.sound is not None and output.name not in capabilities.sound_formats:
        there = ", ".join(capabilities.sound_formats)
        problem = f"{shown(given)} cannot be made with sound on this server, as {info.id} does"
        raise BadField("output_format", f"{problem}; there are {there}")
    return output


def _check_encoder(codec: str | None, params: GenerationParams, request: VideoGenerationRequest) -> None:
    least = options.CODECS[codec].min_side if codec is not None else 1
    if min(params.width, params.height) < least:
        raise BadField(
            _size_field(request),
            f"{params.width}x{params.height} is not allowed; {codec} needs {least} pixels or more either way",
        )


def _codec_options(request: VideoGenerationRequest, codec: str | None) -> Mapping[str, str]:
    given = request.video_codec_options
    try:
        return options.resolve(codec, given, present=given is not None)
    except InvalidOption as error:
        problem = str(error).removeprefix(f"{error.option}: ")
        raise BadField(f"video_codec_options.{error.option}", problem) from None


def _response_format(request: VideoGenerationRequest, settings: Settings) -> ResponseFormat:
    default: ResponseFormat = "video_bytes"
    response = _or(request.response_format, default)
    if response == "video_path" and not settings.artifacts.expose_paths:
        others = "ask for video_bytes, b64_json or url"
        raise BadField("response_format", f'"video_path" is not enabled on this server; {others}')
    return response


def _stream(request: VideoGenerationRequest, output: Format) -> bool:
    if not request.stream:
        return False
    if not output.streamable:
        possible = ", ".join(name for name, row in FORMATS.items() if row.streamable)
        raise BadField("stream", f"true is not allowed with output_format {output.name}, but with {possible}")
    if _or(request.n, 1) != 1:
        raise BadField("stream", f"true is not allowed with n = {request.n}; one video can be streamed")
    if _or(request.response_format, "video_bytes") != "video_bytes":
        raise BadField("stream", f"true is not allowed with response_format {request.response_format}")
    return True


def _latents(request: VideoGenerationRequest, settings: Settings) -> Path | None:
    """The file with the initial noise: the request's, below the operator's folder, or the operator's own."""
    if request.latent_path is None:
        return settings.fixed_latent_path
    if settings.fixed_latents.dir is None:
        raise BadField("latent_path", "is not enabled on this server; leave it out")
    path = _below(settings.fixed_latents.dir, request.latent_path)
    if path is None:
        kinds = " or ".join(LATENT_SUFFIXES)
        wanted = f"a path relative to the operator's folder, of a file there that ends in {kinds}"
        raise BadField("latent_path", f"{shown(request.latent_path)} is not allowed; it must be {wanted}")
    return path


def _below(folder: Path, name: str) -> Path | None:
    """The file `name` in `folder`, if it is one and no symbolic link leads out."""
    try:
        root = folder.resolve()
        path = (root / name).resolve()
        inside = path.is_relative_to(root) and path.is_file()
    except (OSError, RuntimeError, ValueError):  # too long, a loop of links, not a path at all
        return None
    return path if inside and path.suffix in LATENT_SUFFIXES and not Path(name).is_absolute() else None
