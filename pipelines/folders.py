"""Whether a checkpoint is of the kind that it is configured as, by its index, before all else is read."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import hf_hub_download, try_to_load_from_cache
from huggingface_hub.errors import HFValidationError, RemoteEntryNotFoundError
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]  # documented, not marked

from pipelines.base import ModelConfig
from pipelines.errors import LoadFailed

INDEXES = ("model_index.json", "modular_model_index.json")
"""Of a pipeline that diffusers saved, and of one of its modular ones."""


def check_folder(config: ModelConfig, classes: Mapping[str, Collection[str]]) -> None:
    """Check what can be known of `config.path` at once: by a folder's index, or by that of a hub repository
    as far as it is at hand or can be fetched, before gigabytes are.

    `classes`: by kind, the classes whose folders it loads.

    Raises:
        LoadFailed: there is no such folder, it has no index, or one of another class.
    """
    here, found = Path(config.path).is_dir(), list[str]()
    if not here:
        _check_name(config)
    for index in (_in_folder if here else _on_hub)(config.path):
        found.append(_class_in(index, config.id))
        if found[-1] in classes[config.kind]:
            return
    if found:
        known = "; ".join(f"kind {kind} loads {' or '.join(names)}" for kind, names in classes.items())
        raise LoadFailed(
            f"model {config.id}: kind: {config.kind!r} is not allowed for {config.path}, "
            f"which holds a {' and a '.join(found)}; {known}"
        )
    if here:
        _check_unindexed(config, classes[config.kind])


def _check_name(config: ModelConfig) -> None:
    if config.load_format == "dummy":
        raise LoadFailed(
            f"model {config.id}: path: {config.path} is not a folder here; load_format dummy takes no other"
        )
    try:
        validate_repo_id(config.path)
    except HFValidationError:
        raise LoadFailed(
            f"model {config.id}: path: {config.path} is not a folder here, and no id of a hub repository"
        ) from None


def _check_unindexed(config: ModelConfig, classes: Collection[str]) -> None:
    official = config.kind == "wan-s2v" and config.load_format == "auto"
    if official and (Path(config.path) / "config.json").is_file():
        return
    also = ", or the official files with their config.json" if official else ""
    raise LoadFailed(
        f"model {config.id}: path: {config.path} holds no {' or '.join(INDEXES)}; "
        f"kind {config.kind} takes a folder of diffusers with a {' or a '.join(classes)}{also}"
    )


def _in_folder(path: str) -> Iterator[Path]:
    return (index for index in (Path(path) / name for name in INDEXES) if index.is_file())


def _on_hub(repository: str) -> Iterator[Path]:
    """First those that are at hand: a start with all files in the hub's cache asks no network."""
    cached = {name: try_to_load_from_cache(repository, name) for name in INDEXES}
    yield from (Path(place) for place in cached.values() if isinstance(place, str))
    for name in (name for name, place in cached.items() if place is None):
        try:
            place = hf_hub_download(repository, name)
        except RemoteEntryNotFoundError:
            continue
        except Exception:  # noqa: BLE001 - no such repository, no right to it, no network: the loader will say
            return
        yield Path(place)


def _class_in(index: Path, model: str) -> str:
    try:
        said: Any = json.loads(index.read_bytes())
        return str(said["_class_name"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise LoadFailed(f"model {model}: path: {index} does not tell a _class_name: {error!r}") from None
