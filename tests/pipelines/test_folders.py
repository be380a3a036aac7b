"""Folders that do not fit their kind, told before anything of them is loaded."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import diffusers
import huggingface_hub.constants
import pytest

import pipelines.tiny_h3
from pipelines import folders
from pipelines.errors import LoadFailed
from pipelines.registry import KINDS, load
from pipelines.wan_s2v.components import WanS2VPipeline
from tests.pipelines.tiny_models import TINY, tiny_config

H3 = Path(pipelines.tiny_h3.__file__).parent / "checkpoint"


def refused(kind: str, path: Path | str, load_format: str = "auto") -> str:
    """Of model `m`, in words that are nobody else's."""
    with pytest.raises(LoadFailed) as caught:
        load(tiny_config("t2v", id="m", kind=kind, path=str(path), load_format=load_format), "cpu")
    assert caught.value.__cause__ is None
    return str(caught.value)


@pytest.mark.parametrize("load_format", ["auto", "dummy"])
@pytest.mark.parametrize(
    ("kind", "folder", "found"),
    [
        ("wan", TINY / "s2v", "WanS2VPipeline"),
        ("wan", H3, "MiniMaxH3ModularPipeline"),
        ("wan-s2v", TINY / "t2v", "WanPipeline"),
        ("minimax-h3", TINY / "i2v", "WanImageToVideoPipeline"),
    ],
    ids=str,
)
def test_a_folder_of_another_kind_is_named(kind: str, folder: Path, found: str, load_format: str) -> None:
    """The setting, what the folder holds, and the kind that would load it."""
    told = refused(kind, folder, load_format)
    assert told.startswith(f"model m: kind: {kind!r} is not allowed for {folder}, which holds a {found}; ")
    (fits,) = (other for other, row in KINDS.items() if found in row.classes)
    assert f"kind {fits} loads " in told


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_folder_without_a_usable_index_is_named(kind: str, tmp_path: Path) -> None:
    """One that holds none, one that holds something else, and one that is not there."""
    path = f"model m: path: {tmp_path}"
    assert refused(kind, tmp_path).startswith(
        f"{path} holds no model_index.json or modular_model_index.json; kind {kind} takes a folder"
    )
    index = tmp_path / "model_index.json"
    for text in ("{ nothing", "[]", "{}"):
        index.write_text(text)
        assert refused(kind, tmp_path).startswith(f"{path}/model_index.json does not tell a _class_name")
    assert refused(kind, index).startswith(f"{path}/model_index.json is not a folder here")
    assert "load_format dummy takes no other" in refused(kind, "some/where", "dummy")


def test_a_hub_repository_of_another_kind_is_named_before_it_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the index in the hub's cache, with no network; without one it is the loader that refuses."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    cached = tmp_path / "models--someone--i2v"
    snapshot = cached / "snapshots" / ("0" * 40)
    (cached / "refs").mkdir(parents=True)
    (cached / "refs" / "main").write_text(snapshot.name)
    snapshot.mkdir(parents=True)
    (snapshot / "model_index.json").write_text((TINY / "i2v" / "model_index.json").read_text())
    told = refused("minimax-h3", "someone/i2v")
    assert told.startswith("model m: kind: 'minimax-h3' is not allowed for someone/i2v, which holds a Wan")
    with pytest.raises(LoadFailed, match="cannot load someone/else"):
        load(tiny_config("t2v", path="someone/else"), "cpu")
    monkeypatch.setattr(folders, "hf_hub_download", lambda *_: pytest.fail("what is at hand is enough"))
    with pytest.raises(LoadFailed, match="cannot load someone/i2v"):
        load(tiny_config("t2v", path="someone/i2v"), "cpu")


def test_a_folder_with_two_indexes_is_of_either_kind(tmp_path: Path) -> None:
    """MiniMax's own files have one for each of diffusers' two kinds of pipelines."""
    (tmp_path / "model_index.json").write_text(json.dumps({"_class_name": "MiniMaxH3Pipeline"}))
    (tmp_path / "modular_model_index.json").write_text((H3 / "modular_model_index.json").read_text())
    assert "holds a MiniMaxH3Pipeline and a MiniMaxH3ModularPipeline" in refused("wan", tmp_path)
    config = tiny_config("t2v", kind="minimax-h3", path=str(tmp_path))
    with pytest.raises(LoadFailed, match="guidance_scale"):  # it is the loader that refuses
        load(config, "cpu")


def test_an_official_folder_that_is_not_whole_says_what_is_missing(tmp_path: Path) -> None:
    """And nothing is looked for anywhere else."""
    (tmp_path / "config.json").write_text("{}")
    config = tiny_config("s2v", kind="wan-s2v", path=str(tmp_path))
    with pytest.raises(LoadFailed, match=r"google/umt5-xxl is missing"):
        load(config, "cpu")


def test_each_kind_has_classes_that_exist() -> None:
    ours = {"WanS2VPipeline": WanS2VPipeline}
    for kind in KINDS.values():
        assert all(name in ours or hasattr(diffusers, name) for name in kind.classes)
        module, function = kind.loader.split(":")
        assert callable(getattr(import_module(module), function))
