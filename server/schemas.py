"""What a request may say: types and bounds, no logic. Answers are in `server.answers`.

The OpenAPI document and the README's table of fields are made from these descriptions.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import AliasChoices, Field

from server.reference_schemas import (
    FILM,
    ORDERED,
    PICTURE,
    REFERENCES,
    SOUND,
    AudioReference,
    File,
    ImageReference,
    OrderedReference,
    VideoReference,
)
from server.wire import Exact, Rate, Wire

MAX_PROMPT = 32_000
MAX_SEED = 2**63 - 1
MAX_OUTPUTS = 4

TOLERATED = frozenset({"user", "quality", "metadata", "characters", "preencode_mp4"})
"""Accepted for the sake of clients that send them, without effect; never stored."""

TOP_LEVEL_ONLY = {*REFERENCES, ORDERED, "prompt", "model", "response_format", "stream", "extra_params"}
"""What `extra_params` cannot hold: the words, the files, and where the answer goes."""

ResponseFormat = Literal["video_bytes", "video_path", "b64_json", "url"]


class VideoGenerationRequest(Wire):
    """What a client asks for, as JSON or as a multipart form. What it did not give is None.

    null and an empty form field are "not given", with two exceptions: an empty `negative_prompt` is none,
    and `video_codec_options: null` leaves the codec to its own defaults.
    """

    prompt: str = Field(
        max_length=MAX_PROMPT,
        repr=False,
        description="what the video shows; not blank",
        examples=["a red circle moves from left to right"],
    )
    model: str | None = Field(
        None, description="id or alias of a served model; default: the first one", examples=["sora-2"]
    )
    size: str | None = Field(
        None,
        description="`WxH` in pixels, or `auto`; even sides, within the model's limit; "
        "default: the model's own",
        examples=["832x480"],
    )
    width: int | None = Field(
        None, ge=2, multiple_of=2, description="width in pixels, together with `height`", examples=[832]
    )
    height: int | None = Field(
        None, ge=2, multiple_of=2, description="height in pixels, together with `width`", examples=[480]
    )
    seconds: Exact | None = Field(
        None, gt=0, description="length; the video has round(seconds × fps) frames", examples=["4"]
    )
    fps: Rate | None = Field(
        None,
        ge=1,
        le=120,
        validation_alias=AliasChoices("fps", "frame_rate"),
        description='frames per second, kept exact: a number or `"24000/1001"`; default: the model\'s own',
        examples=[24],
    )
    num_frames: int | None = Field(
        None, ge=1, description="frames; beats `seconds`; default: the model's own", examples=[81]
    )
    seed: int | None = Field(
        None,
        ge=0,
        le=MAX_SEED,
        description="the same seed gives the same video; default: drawn and reported",
        examples=[0],
    )
    num_inference_steps: int | None = Field(
        None, ge=1, le=200, description="denoising steps; default: the model's own", examples=[40]
    )
    guidance_scale: float | None = Field(
        None,
        ge=0,
        le=20,
        description="guidance, of the high-noise expert where there are two; ≤ 1 turns it off; "
        "default: the model's own",
        examples=[4.0],
    )
    guidance_scale_2: float | None = Field(
        None,
        ge=0,
        le=20,
        description="guidance of the low-noise expert, only on models with two; default: the model's own",
        examples=[3.0],
    )
    boundary_ratio: float | None = Field(
        None,
        ge=0,
        le=1,
        description="timesteps from ratio × 1000 up go to the high-noise expert, only on models with two; "
        "default: the model's own",
        examples=[0.875],
    )
    flow_shift: float | None = Field(
        None,
        ge=1e-7,  # with less the noise of two steps is the same number
        le=30,
        description="shift of the noise schedule; default: the model's own",
        examples=[12.0],
    )
    negative_prompt: str | None = Field(
        None,
        repr=False,
        max_length=MAX_PROMPT,
        description="what the video should not show; empty: nothing; default: the model's official text",
        examples=["blurry, distorted"],
    )
    max_sequence_length: int | None = Field(
        None, ge=1, le=512, description="prompt length in tokens; default: the model's own", examples=[512]
    )
    n: int | None = Field(
        None,
        ge=1,
        le=MAX_OUTPUTS,
        validation_alias=AliasChoices("n", "num_outputs_per_prompt"),
        description="how many videos to make of it; default: 1",
        examples=[1],
    )
    input_reference: File | ImageReference | None = Field(
        None,
        repr=False,
        validation_alias=AliasChoices("input_reference", "image_reference", "image"),
        description="first frame of an image-to-video model: a file, `{image_url}` or a bare URL",
        examples=[PICTURE],
    )
    last_image: File | ImageReference | None = Field(
        None,
        repr=False,
        description="last frame, where the model can; given like `input_reference`",
        examples=[PICTURE],
    )
    audio_reference: File | AudioReference | None = Field(
        None,
        repr=False,
        validation_alias=AliasChoices("audio_reference", "audio"),
        description="sound of a speech-to-video model, whose video is as long as that unless `num_frames` or "
        "`seconds` says otherwise; a file, `{audio_url}` or a bare URL",
        examples=[SOUND],
    )
    video_reference: File | VideoReference | None = Field(
        None,
        repr=False,
        description="poses of a speech-to-video model, a film with its first frame first: a file, "
        "`{video_url}` or a bare URL",
        examples=[FILM],
    )
    references: list[OrderedReference] | None = Field(
        None,
        repr=False,
        description="up to 16 pictures, films and sounds in the order in which the model reads them, each an "
        "object with one of `image_url`, `video_url` and `audio_url`; instead of a first and last frame",
        examples=[[PICTURE, SOUND]],
    )
    init_first_frame: bool | None = Field(
        None,
        description="start a speech-to-video model's video from the picture itself, not only from its looks; "
        "default: false",
        examples=[False],
    )
    output_format: str | None = Field(
        None,
        validation_alias=AliasChoices("output_format", "format"),
        description="`mp4` (also `auto`), `webm`, `pt` (also `raw`) or `safetensors`; default: `auto`",
        examples=["mp4"],
    )
    response_format: ResponseFormat | None = Field(
        None,
        description="`video_bytes` (also `file`), `video_path` (also `path`; where the operator allows it), "
        "`b64_json` or `url`; default: `video_bytes`",
        examples=["video_bytes"],
    )
    video_codec_options: dict[str, str] | None = Field(
        None,
        description="options of the server's video encoder, such as preset, crf, bitrate, profile, gop, "
        "threads and tune; "
        "`{}` or null: the codec's own defaults; default: the service's",
        examples=[{"preset": "veryfast", "crf": "18"}],
    )
    stream: bool | None = Field(
        None,
        description="send a fragmented MP4 while it is being made (waiting routes); default: false",
        examples=[False],
    )
    extra_params: dict[str, Any] | None = Field(
        None,
        description="more of these fields by name, except the prompt, the model, references, "
        "`response_format` and `stream`",
        examples=[{"flow_shift": 5.0}],
    )
    latent_path: str | None = Field(
        None,
        description="file with the initial noise, relative to the operator's folder; off by default",
        examples=["noise.safetensors"],
    )
    user: Any = Field(None, description="accepted, without effect", examples=["user-1"])
    quality: Any = Field(None, description="accepted, without effect", examples=["standard"])
    metadata: Any = Field(None, description="accepted, without effect", examples=[{"scene": "7"}])
    characters: list[Any] | None = Field(
        None, description="accepted while empty, without effect", examples=[[]]
    )
    preencode_mp4: Any = Field(None, description="accepted, without effect: it is always so", examples=[True])
