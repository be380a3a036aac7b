"""What answers look like: OpenAI's keys and types, and ours beside them. No logic."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from pipelines.base import ReferenceUse
from server.wire import Rate, Wire

VideoStatus = Literal["queued", "in_progress", "completed", "failed"]

_ID = "video_0123456789abcdef0123456789abcdef"


class VideoError(Wire):
    code: str = Field(description="one of the job error codes", examples=["out_of_memory"])
    message: str = Field(examples=["the device ran out of memory while denoising"])


class Video(Wire):
    """A job and what it really uses, from the first answer on."""

    id: str = Field(description="`video_` and 32 hexadecimal digits", examples=[_ID])
    object: Literal["video"] = "video"
    created_at: int = Field(description="unix seconds", examples=[1764000000])
    completed_at: int | None = Field(None, description="unix seconds", examples=[1764000090])
    expires_at: int | None = Field(
        None, description="unix seconds; the file is gone then", examples=[1764086490]
    )
    status: VideoStatus = Field(description="no other word is ever sent", examples=["in_progress"])
    progress: int = Field(ge=0, le=100, description="percent; 100 only when completed", examples=[40])
    model: str = Field(
        description="id of the model, also where an alias was asked for", examples=["tiny-wan"]
    )
    prompt: str = Field(description="as it was given", examples=["a red circle moves from left to right"])
    seconds: str = Field(description="num_frames ÷ fps", examples=["4"])
    size: str = Field(description="of the file", examples=["832x480"])
    error: VideoError | None = Field(None, description="why it failed; null unless it did")
    remixed_from_video_id: str | None = Field(None, description="the video it was made from", examples=[_ID])
    num_frames: int = Field(description="of the file", examples=[64])
    fps: Rate = Field(description="exact: a number, or text such as `24000/1001`", examples=[16])
    seed: int = Field(description="the one given, or the one drawn", examples=[7])
    num_inference_steps: int = Field(description="denoising steps", examples=[40])
    guidance_scale: float | None = Field(
        description="of the high-noise expert where there are two; null on a model without guidance",
        examples=[4.0],
    )
    guidance_scale_2: float | None = Field(
        None, description="of the low-noise expert; null on a model with one", examples=[3.0]
    )
    boundary_ratio: float | None = Field(
        None, description="where the experts change over; null on a model with one", examples=[0.875]
    )
    output_format: str = Field(description="of the file", examples=["mp4"])
    stage: str | None = Field(None, description="what the worker does now", examples=["denoise"])
    queue_position: int | None = Field(None, description="jobs before this one", examples=[0])
    timings: dict[str, float] | None = Field(
        None, description="milliseconds, as in `Server-Timing`", examples=[{"denoise": 81500.0}]
    )


class VideoEvent(Wire):
    """What `GET /v1/videos/{id}/events` tells at every change."""

    id: str = Field(examples=[_ID])
    status: VideoStatus = Field(examples=["in_progress"])
    progress: int = Field(ge=0, le=100, description="percent", examples=[40])
    stage: str | None = Field(None, description="what the worker does now", examples=["denoise"])
    step: int | None = Field(None, description="steps of the stage that are done", examples=[16])
    steps: int | None = Field(None, description="steps that the stage has", examples=[40])
    queue_position: int | None = Field(None, description="jobs before this one", examples=[0])
    error: VideoError | None = Field(None, description="why it failed; null unless it did")

    @property
    def ended(self) -> bool:
        return self.status in ("completed", "failed")

    @property
    def name(self) -> str:
        """The event's type."""
        return self.status if self.ended else "progress"


class VideoList(Wire):
    object: Literal["list"] = "list"
    data: list[Video] = Field(description="one page of jobs")
    first_id: str | None = Field(description="of this page", examples=[_ID])
    last_id: str | None = Field(description="the next page's `after`", examples=[_ID])
    has_more: bool = Field(description="whether more follow this page", examples=[False])


class VideoDeleted(Wire):
    id: str = Field(examples=[_ID])
    object: Literal["video.deleted"] = "video.deleted"
    deleted: Literal[True] = True


class VideoPathResult(Wire):
    video_id: str = Field(examples=[_ID])
    video_path: str = Field(
        description="a file on the server's machine", examples=["/data/artifacts/video_0123/video.mp4"]
    )


class VideoBytesResult(Wire):
    video_id: str = Field(examples=[_ID])
    video_bytes: str = Field(description="base64", examples=["AAAAIGZ0eXBpc29t"])


class VideoUrlResult(Wire):
    video_id: str = Field(examples=[_ID])
    url: str = Field(
        description="where the file is", examples=["http://127.0.0.1:8000/v1/videos/video_0/content"]
    )


class ModelDefaultsBody(Wire):
    """What a request that names only a prompt gets."""

    model_config = ConfigDict(from_attributes=True)

    width: int = Field(description="pixels", examples=[832])
    height: int = Field(description="pixels", examples=[480])
    num_frames: int = Field(examples=[81])
    fps: Rate = Field(examples=[16])
    num_inference_steps: int = Field(examples=[40])
    guidance_scale: float | None = Field(description="null on a model without guidance", examples=[4.0])
    guidance_scale_2: float | None = Field(description="null on a model with one expert", examples=[3.0])
    boundary_ratio: float | None = Field(description="null on a model with one expert", examples=[0.875])
    flow_shift: float = Field(examples=[12.0])
    negative_prompt: str = Field(description="the model's official text", examples=["blurry, distorted"])
    max_sequence_length: int | None = Field(
        description="tokens; null where prompts are neither cut nor padded", examples=[512]
    )


class ModelLimitsBody(Wire):
    model_config = ConfigDict(from_attributes=True)

    max_pixels: int = Field(description="largest width × height, on the model's grid", examples=[921600])
    max_num_frames: int = Field(examples=[241])
    max_pixel_frame_steps: int | None = Field(
        description="largest width × height × frames × steps × n, on the model's grid; pictures and films "
        "among references count as frames; null: no bound",
        examples=[15_000_000_000],
    )


class SoundBody(Wire):
    """How a model's sound is sampled; what a file has may be resampled for its codec."""

    model_config = ConfigDict(from_attributes=True)

    sample_rate: int = Field(description="samples a second", examples=[16_000])
    channels: int = Field(description="1 or 2", examples=[1])


class ReferenceLimitsBody(Wire):
    """How many `references` a model takes."""

    model_config = ConfigDict(from_attributes=True)

    images: int = Field(examples=[9])
    videos: int = Field(examples=[3])
    audios: int = Field(examples=[3])
    total: int = Field(description="in all", examples=[12])
    required: bool = Field(description="whether it needs some", examples=[False])
    max_aspect: float | None = Field(
        None,
        description="the most that a picture or film may be longer one way than the other; null: no bound",
        examples=[4],
    )
    min_video_s: float | None = Field(
        None,
        description="how long a film must last, in seconds; null: a frame is enough",
        examples=[0.520833],
    )


class ModelCard(Wire):
    """A served model; made from a `pipelines.base.ModelInfo` by `model_validate`."""

    model_config = ConfigDict(from_attributes=True, extra="ignore")

    id: str = Field(description="the name that requests use", examples=["wan2.2-t2v-a14b"])
    object: Literal["model"] = "model"
    created: int = Field(0, description="unix seconds; 0 where it is not known", examples=[0])
    owned_by: str = Field("reelserve", examples=["reelserve"])
    aliases: tuple[str, ...] = Field(description="other names for it", examples=[["sora-2"]])
    description: str = Field(
        "", description="the operator's words on it, such as what it knows", examples=["Only at night."]
    )
    task: Literal["t2v", "i2v", "ti2v", "s2v", "omni"] = Field(
        description="what it takes: text; text and a picture; text, and a picture if there is one; text, a "
        "picture and a sound; text, and of a first or last picture and ordered references those that "
        "`image`, `last_image` and `references` tell",
        examples=["t2v"],
    )
    image: ReferenceUse = Field(
        description="its use of a first picture, `input_reference`: `none`, `optional` or `required`",
        examples=["none"],
    )
    last_image: bool = Field(description="whether it takes a last one, `last_image`", examples=[False])
    sound: SoundBody | None = Field(
        None, description="what it makes beside pictures; null: its videos are silent", examples=[None]
    )
    references: ReferenceLimitsBody | None = Field(
        None, description="how many ordered references it takes; null: none", examples=[None]
    )
    defaults: ModelDefaultsBody
    limits: ModelLimitsBody
    unused: dict[str, str] = Field(
        description="fields without a meaning for it, which are refused, and why",
        examples=[{"boundary_ratio": "has one expert, it needs two"}],
    )


class ModelList(Wire):
    object: Literal["list"] = "list"
    data: list[ModelCard] = Field(description="the default model first")


class Health(Wire):
    """A server that can take work."""

    status: Literal["ok"] = "ok"
    device: str = Field(description="of the workers", examples=["cuda:0 (NVIDIA H200)"])
    queued: int = Field(description="jobs that wait", examples=[0])


class ErrorDetail(Wire):
    message: str = Field(
        description="the field, its value and what is allowed",
        examples=['size: "832x" is not allowed; it must be "WxH" in pixels, such as "832x480", or "auto"'],
    )
    type: str = Field(description="the kind of error", examples=["invalid_request_error"])
    param: str | None = Field(description="the field's name as the client sent it", examples=["size"])
    code: str | None = Field(description="what exactly is wrong, for programs", examples=["invalid_value"])


class ErrorBody(Wire):
    """Every answer that is not a result."""

    error: ErrorDetail
