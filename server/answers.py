"""What answers look like: OpenAI's keys and types, and ours beside them. No logic."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from server.schemas import Rate, Wire

VideoStatus = Literal["queued", "in_progress", "completed", "failed"]


class VideoError(Wire):
    code: str
    message: str


class Video(Wire):
    """A job and what it really uses, from the first answer on."""

    id: str = Field(examples=["video_0123456789abcdef0123456789abcdef"])
    object: Literal["video"] = "video"
    created_at: int = Field(description="unix seconds")
    completed_at: int | None = Field(None, description="unix seconds")
    expires_at: int | None = Field(None, description="unix seconds; the file is gone then")
    status: VideoStatus
    progress: int = Field(ge=0, le=100, description="percent; 100 only when completed")
    model: str
    prompt: str
    seconds: str = Field(examples=["4"])
    size: str = Field(examples=["832x480"])
    error: VideoError | None = None
    remixed_from_video_id: str | None = None
    num_frames: int
    fps: Rate
    seed: int
    num_inference_steps: int
    guidance_scale: float
    guidance_scale_2: float | None = None
    boundary_ratio: float | None = None
    output_format: str
    stage: str | None = Field(None, description="what the worker does now")
    queue_position: int | None = Field(None, description="jobs before this one")
    timings: dict[str, float] | None = Field(None, description="milliseconds, as in `Server-Timing`")


class VideoEvent(Wire):
    """What `GET /v1/videos/{id}/events` tells at every change."""

    id: str
    status: VideoStatus
    progress: int = Field(ge=0, le=100, description="percent")
    stage: str | None = None
    step: int | None = Field(None, description="steps of the stage that are done")
    steps: int | None = None
    queue_position: int | None = None
    error: VideoError | None = None

    @property
    def ended(self) -> bool:
        return self.status in ("completed", "failed")

    @property
    def name(self) -> str:
        """The event's type."""
        return self.status if self.ended else "progress"


class VideoList(Wire):
    object: Literal["list"] = "list"
    data: list[Video]
    first_id: str | None
    last_id: str | None
    has_more: bool


class VideoDeleted(Wire):
    id: str
    object: Literal["video.deleted"] = "video.deleted"
    deleted: Literal[True] = True


class VideoPathResult(Wire):
    video_id: str
    video_path: str


class VideoBytesResult(Wire):
    video_id: str
    video_bytes: str = Field(description="base64")


class VideoUrlResult(Wire):
    video_id: str
    url: str


class ModelDefaultsBody(Wire):
    """What a request that names only a prompt gets."""

    model_config = ConfigDict(from_attributes=True)

    width: int
    height: int
    num_frames: int
    fps: Rate
    num_inference_steps: int
    guidance_scale: float
    guidance_scale_2: float | None
    boundary_ratio: float | None
    flow_shift: float
    negative_prompt: str
    max_sequence_length: int


class ModelLimitsBody(Wire):
    model_config = ConfigDict(from_attributes=True)

    max_pixels: int
    max_num_frames: int


class ModelCard(Wire):
    """A served model; made from a `pipelines.base.ModelInfo` by `model_validate`."""

    model_config = ConfigDict(from_attributes=True, extra="ignore")

    id: str
    object: Literal["model"] = "model"
    created: int = Field(0, description="unix seconds; 0 where it is not known")
    owned_by: str = "reelserve"
    aliases: tuple[str, ...]
    task: Literal["t2v", "i2v", "ti2v"]
    defaults: ModelDefaultsBody
    limits: ModelLimitsBody


class ModelList(Wire):
    object: Literal["list"] = "list"
    data: list[ModelCard]


class ErrorDetail(Wire):
    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(Wire):
    """Every answer that is not a result."""

    error: ErrorDetail
