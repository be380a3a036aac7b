"""The whole configuration: YAML, then environment, then flags. A misspelt name ends the start."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, Field, ValidationError, field_validator
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

from pipelines.base import ModelConfig
from server.model_settings import ModelSettings
from server.sections import (
    ArtifactSettings,
    AuthSettings,
    EncodingSettings,
    EngineSettings,
    FixedLatentSettings,
    ImageSettings,
    LogSettings,
    MediaSettings,
    QueueSettings,
    ServerSettings,
    StoreSettings,
    UrlSettings,
)
from server.webhooks.settings import WebhookSettings

ENV_PREFIX = "REELSERVE_"
ENV_DELIMITER = "__"
SECRET = ("auth", "webhooks")
"""Sections whose values are never shown."""


class SettingsError(ValueError):
    """The configuration cannot be used; the message names each setting, its value and what is allowed."""


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
        told = told or isinstance(problem["input"], dict | list | tuple)  # whole sections hide the words
        shown = "" if told else f" (got {problem['input']!r})"
        yield f"{name}: {problem['msg']}{shown}"
