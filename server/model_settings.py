"""The section of a served model, and how a worker takes it."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from pipelines.base import DecodeConfig, ModelConfig, ModelLimits
from server.sections import Section


class LimitSettings(Section):
    max_pixels: int = Field(description="largest width × height of a video, on the model's grid", ge=256)
    max_num_frames: int = Field(description="most frames of a video", ge=1)
    max_pixel_frame_steps: int | None = Field(
        None,
        description="largest width × height × frames × steps × n of a request, on the model's grid; "
        "pictures and films among references count as frames",
        ge=256,
    )


def _exact_rate(value: object) -> object:
    """YAML reads 23.976 as a float; its decimal digits are what the operator meant."""
    return Fraction(str(value)) if isinstance(value, int | float | str) else value


_SIZE = r"[0-9]{1,5}x[0-9]{1,5}"


def _sides(size: str) -> tuple[int, int]:
    width, height = map(int, size.split("x"))
    return width, height


class DecodeSettings(Section):
    chunk_frames: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        "auto", description="latent frames that are decoded in one step; `auto`: by the memory that is free"
    )
    tile: str = Field(
        "auto",
        pattern=rf"^(auto|none|{_SIZE})$",
        description="frames are decoded, and given pictures encoded, in tiles of so many pixels "
        "(`WIDTHxHEIGHT`, multiples of 16), with the same result; `auto`: where the GPU's memory allows no "
        "other way; `none`: never",
    )
    exact: bool = Field(
        False, description="frames with the same bits as diffusers' decoder makes, at a third of the speed"
    )
    precision: Literal["auto", "fp8"] = Field(
        "auto",
        description="`fp8`: Wan's decoder with convolutions in e4m3, 1.5 times as fast in three quarters of "
        "the memory (A14B's VAE), with about 8 times the error of bfloat16 (simulated, random weights); "
        "needs a Hopper GPU and `dtype: bfloat16`",
    )
    warm_sizes: tuple[Annotated[str, Field(pattern=rf"^{_SIZE}$")], ...] = Field(
        (), description="sizes (`WIDTHxHEIGHT`) decoded once before the server is ready, besides the default"
    )

    @field_validator("tile")
    @classmethod
    def _check_tile(cls, tile: str) -> str:
        if tile not in ("auto", "none") and any(side < 16 or side % 16 for side in _sides(tile)):
            raise ValueError(f"{tile} given; auto, none or WIDTHxHEIGHT is allowed, both multiples of 16")
        return tile

    @model_validator(mode="after")
    def _check_exact(self) -> Self:
        if self.exact and self.precision != "auto":
            raise ValueError(f"precision: {self.precision} given with exact: true, which allows auto only")
        if self.exact and self.chunk_frames not in ("auto", 1):
            raise ValueError(
                f"chunk_frames: {self.chunk_frames} given with exact: true, which allows auto and 1 only"
            )
        if self.exact and self.tile not in ("auto", "none"):
            raise ValueError(f"tile: {self.tile} given with exact: true, which decodes whole frames")
        return self

    def to_config(self, kernels: Path) -> DecodeConfig:
        """As a worker takes it."""
        tiles: dict[str, Literal["auto"] | None] = {"auto": "auto", "none": None}
        return DecodeConfig(
            chunk_frames=None if self.chunk_frames == "auto" else self.chunk_frames,
            tile=tiles[self.tile] if self.tile in tiles else _sides(self.tile),
            exact=self.exact,
            warm_sizes=tuple(map(_sides, self.warm_sizes)),
            kernels=kernels,
            precision=self.precision,
        )


class ModelSettings(Section):
    """One served model. What is None is taken from the checkpoint."""

    id: str = Field(min_length=1, description="the name that requests use")
    aliases: tuple[str, ...] = Field((), description="other names for it, such as `sora-2`")
    description: str = Field(
        "", max_length=4000, description="what `GET /v1/models` tells of it, such as what it knows"
    )
    kind: str = Field(description="the model family, which must fit `path`: `wan`, `wan-s2v` or `minimax-h3`")
    path: str = Field(description="diffusers folder (relative to this file) or hub id")
    dtype: Literal["float32", "bfloat16", "float16"] = Field(
        "bfloat16", description="weights and arithmetic, where diffusers does not insist on float32"
    )
    width: int = Field(ge=2, multiple_of=2, description="default width in pixels")
    height: int = Field(ge=2, multiple_of=2, description="default height in pixels")
    num_frames: int = Field(ge=1, description="default number of frames")
    fps: Annotated[Fraction, BeforeValidator(_exact_rate)] = Field(description="default frame rate")
    num_inference_steps: int = Field(ge=1, le=200, description="default number of denoising steps")
    guidance_scale: float | None = Field(
        None, ge=0, le=20, description="default guidance (of the high-noise expert); needed unless distilled"
    )
    guidance_scale_2: float | None = Field(None, ge=0, le=20, description="its default, low-noise expert")
    boundary_ratio: float | None = Field(None, ge=0, le=1, description="where the experts change over")
    flow_shift: float | None = Field(None, ge=1e-7, le=30, description="default shift of the noise schedule")
    negative_prompt: str | None = Field(None, description="default negative prompt; null: the official text")
    max_sequence_length: int | None = Field(
        None, ge=1, le=512, description="default prompt length in tokens; null: 512, or no bound"
    )
    offload: Literal["none", "model"] = Field(
        "none",
        description="`model` keeps all weights in the host's memory all the time, and copies each component "
        "to the device in turn",
    )
    load_format: Literal["auto", "dummy"] = Field(
        "auto", description="`dummy`: the architecture with random weights, to measure speed and memory"
    )
    tasks: tuple[str, ...] = Field(
        (), description="of a checkpoint that can do several, those to load (MiniMax-H3); empty: all"
    )
    decode: DecodeSettings = DecodeSettings()
    limits: LimitSettings = Field(description="bounds of a request")

    @model_validator(mode="after")
    def _check_defaults(self) -> Self:
        frames, pixels = self.limits.max_num_frames, self.limits.max_pixels
        if self.num_frames > frames:
            raise ValueError(
                f"num_frames: {self.num_frames} given, above its limits.max_num_frames: {frames}"
            )
        if self.width * self.height > pixels:
            raise ValueError(
                f"width, height: {self.width}x{self.height} given, above its limits.max_pixels: {pixels}"
            )
        return self

    def to_config(self, base: Path, kernels: Path) -> ModelConfig:
        """As a worker takes it; `base` is the folder that a relative `path` starts from.

        `kernels` is where compiled kernels are kept.
        """
        sections = {"limits", "decode"}
        values = {name: getattr(self, name) for name in type(self).model_fields if name not in sections}
        values["decode"] = self.decode.to_config(kernels.absolute())
        local = base / self.path
        if local.exists():
            values["path"] = str(local.resolve())
        return ModelConfig(**values, limits=ModelLimits(**self.limits.model_dump()))
