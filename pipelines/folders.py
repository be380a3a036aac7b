"""Whether a checkpoint's folder is of the kind that it is configured as, by its index, before it is read."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]  # documented, not marked

from pipelines.base import ModelConfig
from pipelines.errors import LoadFailed

INDEXES = ("model_index.json", "modular_model_index.json")
"""Of a pipeline that diffusers saved, and of one of its modular ones."""


def check_folder(config: ModelConfig, classes: Mapping[str, Collection[str]]) -> None:
    """Check what can be known of `config.path` at once. Of a hub repository that is nothing but its name.

    `classes`: by kind, the classes whose folders it loads.

    Raises:
        LoadFailed: there is no such folder, it has no index, or one of another class.
    """
    folder = Path(config.path)
    if not folder.is_dir():
        _check_name(config)
        return
    found = list(_classes_in(folder, config.id))
    if not found:
        _check_unindexed(config, classes[config.kind])
    elif not set(found) & set(classes[config.kind]):
        known = "; ".join(f"kind {kind} loads {' or '.join(names)}" for kind, names in classes.items())
        raise LoadFailed(
            f"model {config.id}: kind: {config.kind!r} is not allowed for {folder}, "
            f"which holds a {' and a '.join(found)}; {known}"
        )


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


def _classes_in(folder: Path, model: str) -> Iterator[str]:
    for index in (folder / name for name in INDEXES):
        if index.is_file():
            yield _class_in(index, model)


def _class_in(index: Path, model: str) -> str:
    try:
        said: Any = json.loads(index.read_bytes())
        return str(said["_class_name"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise LoadFailed(f"model {model}: path: {index} does not tell a _class_name: {error!r}") from None
