"""The sections of the configuration and their defaults; `server.settings` puts them together."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from encoding.formats import Mp4Codec
from server.auth.settings import KeySettings
from server.logs import LogFormat, LogLevel

MIB = 2**20
DAY_S = 24 * 3600
MAX_TTL_S = 10**9

_ORIGIN = re.compile(r"https?://[a-z0-9.\[\]:_-]+")
_HOST = re.compile(r"(\*\.)?[a-z0-9:][a-z0-9.:_-]*")


class Section(BaseModel):
    """A group of settings. Frozen, and closed to unknown names."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ServerSettings(Section):
    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(8000, ge=0, le=65535, description="port to listen on; 0 takes a free one")
    allow_public: bool = Field(
        False,
        description="without API keys, listen on an address that other machines can reach all the same, "
        "and go by any host name unless there are `server.hosts`",
    )
    hosts: tuple[str, ...] = Field(
        (),
        description="without API keys, host names that requests may be for, beside addresses, `localhost` "
        "and `server.host`",
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

    @field_validator("hosts")
    @classmethod
    def _check_hosts(cls, hosts: tuple[str, ...]) -> tuple[str, ...]:
        for host in hosts:
            if _HOST.fullmatch(host) is None or "*" in host:
                raise ValueError(f"{host!r} must be a host's name in small ASCII letters, without a port")
        return hosts

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
    mp4_codec: Mp4Codec = Field(
        "libx264",
        description="what MP4 files are made with, by FFmpeg's name: H.264, HEVC or AV1, on the processor or "
        "(`nvenc`) by a card that has such an encoder",
    )
    max_pending_bytes: int = Field(
        256 * MIB, ge=MIB, description="frames that may wait for the encoder, per output"
    )


class FixedLatentSettings(Section):
    dir: Path | None = Field(None, description="folder that `latent_path` of a request may name files in")
