"""Every default of the service, once: YAML, then environment, then flags. A misspelt name ends the start."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    YamlConfigSettingsSource,
)
from pydantic_settings import (
    SettingsError as SettingsSourceError,
)

from pipelines.base import DecodeConfig, ModelConfig, ModelLimits
from server.auth.settings import KeySettings
from server.logs import LogFormat, LogLevel
from server.webhooks.settings import WebhookSettings

MIB = 2**20
DAY_S = 24 * 3600
MAX_TTL_S = 10**9
ENV_PREFIX = "REELSERVE_"
ENV_DELIMITER = "__"
SECRET = ("auth", "webhooks")
"""Sections whose values are never shown."""


_ORIGIN = re.compile(r"https?://[a-z0-9.\[\]:_-]+")
_HOST = re.compile(r"(\*\.)?[a-z0-9:][a-z0-9.:_-]*")


class SettingsError(ValueError):
    """The configuration cannot be used; the message names each setting, its value and what is allowed."""


class Section(BaseModel):
    """A group of settings. Frozen, and closed to unknown names."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ServerSettings(Section):
    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(8000, ge=0, le=65535, description="port to listen on; 0 takes a free one")
    allow_public: bool = Field(
        False, description="without API keys, listen on an address that other machines can reach all the same"
    )
    cors_origins: tuple[str, ...] = Field(
        (), description="web origins whose pages may use the server, such as `https://app.example`; `*`: any"
    )
    create_status: Literal[200, 202] = Field(
        200, description="status of `POST /v1/videos`; 202 for clients that insist on it"
    )
    unknown_fields: Literal["refuse", "ignore"] = Field(
        "refuse", description="unknown request fields: 400, or listed in the header `X-Ignored-Fields`"
    )
    max_connections: int = Field(4096, ge=1, description="open connections; one more is answered 503")
    read_timeout_s: float = Field(
        20,
        gt=0,
        description="how long the head of a request may take, and its body, "
        "which has a second more for each 32 KiB",
    )
    max_body_bytes: int = Field(64 * MIB, ge=1024, description="largest request body")
    max_text_bytes: int = Field(16 * MIB, ge=1024, description="largest text part of a form")
    max_file_bytes: int = Field(32 * MIB, ge=1024, description="largest file of a form")
    max_form_parts: int = Field(100, ge=1, description="most parts of a form")
    sync_timeout_s: float = Field(3600, gt=0, description="how long a synchronous request may take")
    shutdown_s: float = Field(
        10,
        ge=0,
        description="how long running jobs may finish after SIGTERM (`queue.on_restart` says what then)",
    )

    @field_validator("cors_origins")
    @classmethod
    def _check_origins(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        for origin in origins:
            if origin != "*" and _ORIGIN.fullmatch(origin) is None:
                raise ValueError(f"{origin!r} is no origin: http(s)://, a host, perhaps a port, and no path")
        return origins


class LogSettings(Section):
    """Of the server and of its workers."""

    format: LogFormat = Field(
        "text", description="of the log on standard error, one event a line: for people or for a collector"
    )
    level: LogLevel = Field("info", description="least weight of what is logged")


class AuthSettings(Section):
    keys: tuple[KeySettings, ...] = Field(
        (), description="API keys; without any, whoever reaches the server may use it"
    )

    @field_validator("keys")
    @classmethod
    def _check_keys(cls, keys: tuple[KeySettings, ...]) -> tuple[KeySettings, ...]:
        if len({key.digest for key in keys}) < len(keys):
            raise ValueError("names a key more than once")
        return keys


class ImageSettings(Section):
    max_bytes: int = Field(32 * MIB, ge=1024, description="largest reference image")
    max_pixels: int = Field(64_000_000, ge=1, description="most pixels of a reference image")
    timeout_s: float = Field(10, gt=0, description="how long the decoding of an image may take")


class MediaSettings(Section):
    """Reference sounds and films."""

    max_bytes: int = Field(32 * MIB, ge=1024, description="largest reference sound or film")
    max_streams: int = Field(8, ge=1, description="most streams of its file")
    max_audio_s: float = Field(60, gt=0, description="longest reference sound")
    max_video_s: float = Field(60, gt=0, description="longest reference film")
    max_video_frames: int = Field(1_000, ge=1, description="most frames of a reference film")
    max_video_pixels: int = Field(2_211_840, ge=1, description="most pixels of each of its frames")
    max_decoded_bytes: int = Field(2048 * MIB, ge=MIB, description="largest file that is made of it")
    timeout_s: float = Field(60, gt=0, description="how long its decoding may take")


class UrlSettings(Section):
    """Reference files that requests name by http(s) URL."""

    enabled: bool = Field(False, description="fetch reference files from http(s) URLs, at public addresses")
    hosts: tuple[str, ...] = Field(
        (), description="only from these hosts; `*.example.com` is every host below it; default: any"
    )
    ports: tuple[Annotated[int, Field(ge=1, le=65535)], ...] = Field(
        (80, 443), min_length=1, description="only from these ports"
    )
    max_bytes: int = Field(32 * MIB, ge=1024, description="largest file")
    timeout_s: float = Field(15, gt=0, description="how long one may take, redirects included")
    max_redirects: int = Field(3, ge=0, le=10, description="most redirects")

    @field_validator("hosts")
    @classmethod
    def _check_hosts(cls, hosts: tuple[str, ...]) -> tuple[str, ...]:
        for host in hosts:
            if _HOST.fullmatch(host) is None:
                raise ValueError(f"{host!r} must be a host's name in small ASCII letters, or *. and one")
        return hosts


class StoreSettings(Section):
    url: str | None = Field(
        None,
        description="the job database: `sqlite:////folder/file` or `postgresql://user:password@host/name`; "
        "default: SQLite in `data_dir`",
    )
    ttl_s: float | None = Field(
        30 * DAY_S,
        gt=0,
        le=MAX_TTL_S,
        description="how long an ended job is known, and longer while it has files; null: for ever",
    )


class ArtifactSettings(Section):
    dir: Path | None = Field(None, description="folder of finished files; default: below `data_dir`")
    ttl_s: float | None = Field(
        7 * DAY_S,
        gt=0,
        le=MAX_TTL_S,
        description="how long a finished file is kept after its completion; null: for ever",
    )
    max_bytes: int | None = Field(
        None,
        ge=1,
        description="most bytes of files and uploads of ended jobs; beyond it the oldest go. null: no bound",
    )
    min_free_bytes: int = Field(
        MIB, ge=0, description="room that must be left on their disk: with less, requests are answered 507"
    )
    expose_paths: bool = Field(
        False, description="allow `response_format=video_path`, which answers with a path on this machine"
    )
    preview_timeout_s: float = Field(
        30, gt=0, description="how long the making of a thumbnail or spritesheet may take"
    )


class QueueSettings(Section):
    max_jobs: int = Field(64, ge=1, description="jobs that may wait; one more is answered 429")
    max_jobs_per_key: int | None = Field(
        None, ge=1, description="jobs of one API key that may wait or run; one more is answered 429"
    )
    job_timeout_s: float = Field(
        3600, gt=0, description="how long a job may run; then it fails with `timeout`"
    )
    on_restart: Literal["requeue", "fail"] = Field(
        "requeue",
        description="a job that ran when the server ended: run again (once, if the server was killed), "
        "or `failed` with `server_restarted`",
    )


class EngineSettings(Section):
    devices: tuple[str, ...] = Field(
        ("auto",), min_length=1, description="one worker each; `auto` is the first GPU, or else the CPU"
    )
    restart_delay_s: float = Field(
        1, ge=0, description="pause before a dead worker is started again; doubled while it does no work"
    )
    max_restart_delay_s: float = Field(60, ge=0, description="the longest such pause")
    max_start_failures: int = Field(3, ge=1, description="failed starts in a row, then it stays down")
    start_timeout_s: float = Field(1800, gt=0, description="how long a worker may take until it can work")
    heartbeat_timeout_s: float = Field(
        30, ge=3, description="a worker that gives no sign of life for so long is killed"
    )
    cancel_timeout_s: float = Field(
        60, gt=0, description="a cancelled job that has not ended after so long is ended with its worker"
    )


class EncodingSettings(Section):
    max_pending_bytes: int = Field(
        256 * MIB, ge=MIB, description="frames that may wait for the encoder, per output"
    )


class FixedLatentSettings(Section):
    dir: Path | None = Field(None, description="folder that `latent_path` of a request may name files in")


class LimitSettings(Section):
    max_pixels: int = Field(description="largest width × height of a video, on the model's grid", ge=256)
    max_num_frames: int = Field(description="most frames of a video", ge=1)
    max_pixel_frame_steps: int | None = Field(
        None,
        description="largest width × height × frames × steps × n of a request, on the model's grid",
        ge=256,
    )


def _exact_rate(value: object) -> object:
    """YAML reads 23.976 as a float; its decimal digits are what the operator meant."""
    return Fraction(str(value)) if isinstance(value, int | float | str) else value


class DecodeSettings(Section):
    chunk_frames: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        "auto", description="latent frames that are decoded in one step; `auto`: by the memory that is free"
    )
    exact: bool = Field(
        False, description="frames with the same bits as diffusers' decoder makes, at a third of the speed"
    )
    warm_sizes: tuple[Annotated[str, Field(pattern=r"^[0-9]{1,5}x[0-9]{1,5}$")], ...] = Field(
        (), description="sizes (`WIDTHxHEIGHT`) decoded once before the server is ready, besides the default"
    )

    def to_config(self, kernels: Path) -> DecodeConfig:
        """As a worker takes it."""
        sizes = (map(int, size.split("x")) for size in self.warm_sizes)
        return DecodeConfig(
            chunk_frames=None if self.chunk_frames == "auto" else self.chunk_frames,
            exact=self.exact,
            warm_sizes=tuple((width, height) for width, height in sizes),
            kernels=kernels,
        )


class ModelSettings(Section):
    """One served model. What is None is taken from the checkpoint."""

    id: str = Field(min_length=1, description="the name that requests use")
    aliases: tuple[str, ...] = Field((), description="other names for it, such as `sora-2`")
    kind: str = Field(description="the model family: a key of `pipelines.registry.KINDS`")
    path: str = Field(description="diffusers folder (relative to this file) or hub id")
    dtype: Literal["float32", "bfloat16", "float16"] = Field(
        "bfloat16", description="weights and arithmetic, where diffusers does not insist on float32"
    )
    width: int = Field(ge=2, multiple_of=2, description="default width in pixels")
    height: int = Field(ge=2, multiple_of=2, description="default height in pixels")
    num_frames: int = Field(ge=1, description="default number of frames")
    fps: Annotated[Fraction, BeforeValidator(_exact_rate)] = Field(description="default frame rate")
    num_inference_steps: int = Field(ge=1, le=200, description="default number of denoising steps")
    guidance_scale: float = Field(ge=0, le=20, description="default guidance (of the high-noise expert)")
    guidance_scale_2: float | None = Field(None, ge=0, le=20, description="its default, low-noise expert")
    boundary_ratio: float | None = Field(None, ge=0, le=1, description="where the experts change over")
    flow_shift: float | None = Field(None, gt=0, le=30, description="default shift of the noise schedule")
    negative_prompt: str | None = Field(None, description="default negative prompt; null: the official text")
    max_sequence_length: int = Field(512, ge=1, le=512, description="default prompt length in tokens")
    offload: Literal["none", "model"] = Field("none", description="`model` keeps idle components on the host")
    load_format: Literal["auto", "dummy"] = Field(
        "auto", description="`dummy`: the architecture with random weights, to measure speed and memory"
    )
    decode: DecodeSettings = DecodeSettings()
    limits: LimitSettings = Field(description="bounds of a request")

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


class Settings(BaseSettings):
    """The whole configuration, frozen."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX, env_nested_delimiter=ENV_DELIMITER, extra="forbid", frozen=True
    )

    data_dir: Path = Field(Path("data"), description="folder of the job database, uploads and finished files")
    kernels_dir: Path | None = Field(
        None, description="folder of compiled GPU kernels, kept between starts; default: in `data_dir`"
    )
    fixed_latent_path: Path | None = Field(
        None,
        description="initial noise for every request (`.pt` or `.safetensors`); "
        "the variable `FIXED_LATENT_PATH` wins over it",
    )
    server: ServerSettings = ServerSettings()
    log: LogSettings = LogSettings()
    auth: AuthSettings = AuthSettings()
    images: ImageSettings = ImageSettings()
    media: MediaSettings = MediaSettings()
    urls: UrlSettings = UrlSettings()
    store: StoreSettings = StoreSettings()
    artifacts: ArtifactSettings = ArtifactSettings()
    queue: QueueSettings = QueueSettings()
    engine: EngineSettings = EngineSettings()
    encoding: EncodingSettings = EncodingSettings()
    fixed_latents: FixedLatentSettings = FixedLatentSettings()
    webhooks: tuple[WebhookSettings, ...] = Field(
        (), description="services that are told how jobs end; each URL once"
    )
    models: tuple[ModelSettings, ...] = Field(
        min_length=1, description="the served models, the default one first"
    )
    config_dir: Path = Field(Path(), exclude=True, description="folder that relative model paths start from")

    @field_validator("webhooks")
    @classmethod
    def _check_webhooks(cls, webhooks: tuple[WebhookSettings, ...]) -> tuple[WebhookSettings, ...]:
        if len({webhook.url for webhook in webhooks}) < len(webhooks):
            raise ValueError("names a URL more than once")
        return webhooks

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, YamlConfigSettingsSource(settings_cls)

    @property
    def artifacts_dir(self) -> Path:
        return self.artifacts.dir if self.artifacts.dir is not None else self.data_dir / "artifacts"

    @property
    def kernels_folder(self) -> Path:
        return self.kernels_dir if self.kernels_dir is not None else self.data_dir / "kernels"

    @property
    def uploads_dir(self) -> Path:
        return self.data_dir / "uploads"

    @property
    def spool_dir(self) -> Path:
        return self.data_dir / "spool"

    @property
    def store_url(self) -> str:
        return self.store.url or f"sqlite:///{self.data_dir / 'jobs.sqlite3'}"

    @property
    def model_configs(self) -> tuple[ModelConfig, ...]:
        return tuple(model.to_config(self.config_dir, self.kernels_folder) for model in self.models)


def default_config() -> Path:
    """The configuration of a server that was given none: the shipped tiny models, on the CPU."""
    here = Path("configs/tiny.yaml")
    return here if here.exists() else Path(__file__).parent.parent / here


def load(config: Path, flags: Mapping[str, Any] | None = None) -> Settings:
    """Read `config`, the environment and `flags` (nested as the settings are), in rising precedence.

    Raises:
        SettingsError: a file that cannot be read, an unknown name or a value out of bounds.
    """
    if not config.is_file():
        raise SettingsError(f"config: there is no file {config}")
    unknown = sorted(name for name in os.environ if name.startswith(ENV_PREFIX) and not _is_setting(name))
    if unknown:
        raise SettingsError(f"unknown environment variables: {', '.join(unknown)}")
    overrides = dict(flags or {}) | {"config_dir": config.parent}
    if fixed := os.environ.get("FIXED_LATENT_PATH"):
        overrides["fixed_latent_path"] = fixed

    class FromFile(Settings):
        model_config = SettingsConfigDict(yaml_file=config, title="Settings")

    try:
        return FromFile(**overrides)
    except ValidationError as error:
        raise SettingsError("; ".join(_explain(error))) from None
    except (SettingsSourceError, yaml.YAMLError) as error:
        raise SettingsError(f"{config}: {error}") from None


def leaves(model: type[BaseModel] = Settings, prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Every setting with its dotted name, depth first; the rows of the README's table."""
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from leaves(field.annotation, f"{prefix}{name}.")
        elif not field.exclude:
            yield f"{prefix}{name}", field


def _is_setting(variable: str) -> bool:
    dotted = variable.removeprefix(ENV_PREFIX).lower().replace(ENV_DELIMITER, ".")
    names = {name for name, _ in leaves()}
    return dotted in names or any(name.startswith(f"{dotted}.") for name in names)


def _explain(error: ValidationError) -> Iterator[str]:
    for problem in error.errors(include_url=False):
        name = ".".join(str(part) for part in problem["loc"])
        told = problem["type"] in ("missing", "extra_forbidden") or name.startswith(SECRET)
        shown = "" if told else f" (got {problem['input']!r})"
        yield f"{name}: {problem['msg']}{shown}"
