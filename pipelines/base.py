"""The contract between a model family and whoever drives it. Imports neither torch nor diffusers."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from pipelines.reference_work import ReferenceWork

if TYPE_CHECKING:
    import torch

Task = Literal["t2v", "i2v", "ti2v", "s2v", "omni"]
Stage = Literal["prompt", "image", "denoise", "decode"]
ReferenceUse = Literal["none", "optional", "required"]
"""What a model does with one kind of reference."""
ReferenceKind = Literal["image", "video", "audio"]


@dataclass(frozen=True, slots=True)
class Grid:
    """What a model can make: frames `temporal · k + offset`, sides a multiple of `spatial` pixels."""

    temporal: int
    spatial: int
    offset: int = 1
    least_frames: int = 1
    """The shortest video that it makes; a shorter one is cut out of that."""
    fps: Fraction | None = None
    """The frame rate of a model that knows only one; None: its frames may be shown at any."""

    def frames(self, wanted: int) -> int:
        """The smallest frame count on the grid that is at least `wanted` (≥ 1)."""
        steps = -(-(max(wanted, self.least_frames) - self.offset) // self.temporal)
        return max(steps, 0) * self.temporal + self.offset

    def side(self, wanted: int) -> int:
        """The smallest side on the grid, in pixels, that is at least `wanted` (≥ 1)."""
        return -(-wanted // self.spatial) * self.spatial


@dataclass(frozen=True, slots=True)
class ModelDefaults:
    """What a request that names only a prompt gets. Sizes in pixels, `fps` in frames per second.

    None, and an empty `negative_prompt`, stand where the model has no use for a field (`ModelInfo.unused`).
    """

    width: int
    height: int
    num_frames: int
    fps: Fraction
    num_inference_steps: int
    guidance_scale: float | None
    guidance_scale_2: float | None
    boundary_ratio: float | None
    flow_shift: float
    negative_prompt: str
    max_sequence_length: int | None


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """The operator's bounds on one request; a video is generated at most this large."""

    max_pixels: int
    """Width × height of the generated picture, on the model's grid."""
    max_num_frames: int
    """Frames asked for."""
    max_pixel_frame_steps: int | None = None
    """Width × height × frames, both on the model's grid, × denoising steps × videos; None: no bound.

    To width × height × frames `ReferenceLimits.work` adds what references are worth.
    """


@dataclass(frozen=True, slots=True)
class DecodeConfig:
    """How a model's VAE turns latents into frames."""

    chunk_frames: int | None = None
    """Latent frames in one step; None: by the memory that is free."""
    tile: tuple[int, int] | Literal["auto"] | None = "auto"
    """Width and height in pixels of the tiles of a step; `auto`: where memory asks for it; None: no tiles."""
    exact: bool = False
    """The same bits as the reference decoder, at its speed."""
    warm_sizes: tuple[tuple[int, int], ...] = ()
    """Widths and heights, besides the default one, that are decoded once before the model is ready."""
    kernels: Path | None = None
    """A folder for compiled kernels, to keep them between starts."""
    precision: Literal["auto", "fp8"] = "auto"
    """`fp8`: convolutions in e4m3, on a Hopper GPU with a bfloat16 model; `auto`: as the model."""


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """One served model as the operator configured it; None means "as the checkpoint says"."""

    id: str
    kind: str
    """Key of `pipelines.registry.KINDS`."""
    path: str
    """A local diffusers folder, or a hub id."""
    dtype: str
    """`float32`, `bfloat16` or `float16`, for what diffusers does not keep in float32."""
    width: int
    height: int
    num_frames: int
    fps: Fraction
    num_inference_steps: int
    limits: ModelLimits
    guidance_scale: float | None = None
    aliases: tuple[str, ...] = ()
    description: str = ""
    guidance_scale_2: float | None = None
    boundary_ratio: float | None = None
    flow_shift: float | None = None
    negative_prompt: str | None = None
    max_sequence_length: int | None = None
    offload: Literal["none", "model"] = "none"
    """`model` keeps all weights on the host, and copies each component to the device in turn."""
    load_format: Literal["auto", "dummy"] = "auto"
    """`dummy` builds the architecture with random weights: speed and memory without the checkpoint."""
    tasks: tuple[str, ...] = ()
    """Of a checkpoint that can do several, those to load; empty: all of them."""
    decode: DecodeConfig = DecodeConfig()


@dataclass(frozen=True, slots=True)
class SoundFormat:
    """How sound is sampled."""

    sample_rate: int
    """Samples a second."""
    channels: int
    """1 or 2."""


@dataclass(frozen=True, slots=True)
class Reference:
    """One of several ordered references: a file as `GenerationParams` describes those of its kind."""

    kind: ReferenceKind
    path: Path


@dataclass(frozen=True, slots=True)
class ReferenceLimits:
    """How many ordered references a model takes, of each kind and in all."""

    images: int
    videos: int
    audios: int
    total: int
    required: bool = False
    """Whether it needs some."""
    max_aspect: float | None = None
    """The most that a picture or film may be longer one way than the other; None: no bound."""
    min_video_s: float | None = None
    """How long a film must last, in seconds; None: a frame is enough."""
    work: ReferenceWork | None = None
    """What those that are seen add to the work of a request; None: nothing. Sounds add next to nothing."""
    no_videos: str = ""
    """Why it takes no films where the model could: words that follow "takes none; "."""

    def of(self, kind: ReferenceKind) -> int:
        """The most of one kind."""
        return {"image": self.images, "video": self.videos, "audio": self.audios}[kind]


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A loaded model, as requests are checked against it."""

    id: str
    aliases: tuple[str, ...]
    kind: str
    task: Task
    image: ReferenceUse
    last_image: bool
    """Whether a last frame can be given too."""
    grid: Grid
    defaults: ModelDefaults
    limits: ModelLimits
    audio: ReferenceUse = "none"
    """Its use of a sound."""
    video: ReferenceUse = "none"
    """Its use of a film."""
    sound: SoundFormat | None = None
    """What it makes beside pictures; None: its videos are silent."""
    unused: Mapping[str, str] = field(default_factory=dict)
    """Fields of a request without a meaning for it, and why: words that follow the model's name."""
    reserved: Mapping[str, str] = field(default_factory=dict)
    """What a prompt cannot hold, and why: words that follow "there it"."""
    last_image_alone: bool = False
    """Whether a last frame can be given without a first one."""
    references: ReferenceLimits | None = None
    """Ordered references of several kinds, instead of a first and last frame; one of them must be seen. None:
    it takes none."""
    description: str = ""
    """The operator's words on it."""

    @property
    def lasts_as_sound(self) -> bool:
        """Whether a video is as long as the sound of its reference, where a request does not say how long."""
        return self.task == "s2v"


@dataclass(frozen=True, slots=True)
class GenerationParams:
    """One video, every number resolved: nothing here is filled in later.

    Width and height in pixels and `num_frames` are what the client gets; the pipeline generates the next
    point of its grid and trims. `image` and `last_image` are upright RGB picture files of any size,
    `audio` is a WAV file of 32-bit floats, mono or stereo, `video` a Matroska file with RGB frames in FFV1.
    `references` are in the order in which the model is to read them; a film may have its sound in its file.
    `latents` is a file with the initial noise, (C, T, H, W) or (1, C, T, H, W), instead of drawn noise.
    `fps`, in frames per second, is when frames are shown, for models that hear or see what happens meanwhile;
    None: as the model's default has it. `init_first_frame`: the video goes on from the picture of `image`,
    where the model would else only take its looks.
    """

    model: str
    prompt: str
    negative_prompt: str
    width: int
    height: int
    num_frames: int
    seed: int
    num_inference_steps: int
    guidance_scale: float | None
    guidance_scale_2: float | None
    boundary_ratio: float | None
    flow_shift: float
    max_sequence_length: int | None
    num_outputs: int = 1
    image: Path | None = None
    last_image: Path | None = None
    audio: Path | None = None
    video: Path | None = None
    references: tuple[Reference, ...] = ()
    latents: Path | None = None
    fps: Fraction | None = None
    init_first_frame: bool = False


@dataclass(frozen=True, slots=True)
class Chunk:
    """A stretch of finished frames of one output, in order.

    `frames`: float tensor (3, T, H, W), RGB, nominally in [-1, 1], on any device. T ≥ 1; H, W and the sum of
    T over an output's chunks are exactly what the parameters ask for. `output` counts up from 0 and never
    goes back.
    """

    frames: torch.Tensor
    output: int = 0


@dataclass(frozen=True, slots=True)
class Sound:
    """The sound of one output, all of it at once, from the first picture on.

    `samples`: float tensor (channels, N), nominally in [-1, 1], on any device, of `ModelInfo.sound`'s rate
    and channels. It is cut, or padded with silence, to the length of the pictures. One for each output of a
    model with sound: before, among or after the chunks of that output, and before those of the next one.
    First is best: only then are the first pictures of a live stream heard at once.
    """

    samples: torch.Tensor
    sample_rate: int
    output: int = 0


class Control(Protocol):
    """The driver's side of a running generation."""

    def progress(self, stage: Stage, step: int, steps: int, cost: float | None = None) -> None:
        """Say that `step` of `steps` of `stage` is done (0 when it begins).

        `cost` is the share of the stage's time that is done, 0 to 1, where steps take different times.

        Raises:
            Cancelled: the job should stop here. Pipelines let it pass.
        """


class Pipeline(Protocol):
    """A loaded model."""

    info: ModelInfo

    def generate(self, params: GenerationParams, control: Control) -> Generator[Chunk | Sound]:
        """Make `params.num_outputs` videos, yielding chunks while later ones still decode.

        A model with `info.sound` also yields a `Sound` for each of them.

        A generator that is closed before its end lets go of the device.

        Raises:
            InvalidParams, OutOfMemory, BadOutput, Cancelled: see `pipelines.errors`.
        """
