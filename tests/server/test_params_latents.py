from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.server.door import Door, ask, make_settings, refused


@pytest.fixture
async def latent_door(tmp_path: Path) -> AsyncIterator[Door]:
    """A server with a folder of latents, and a secret beside it."""
    folder = tmp_path / "latents"
    (folder / "deep").mkdir(parents=True)
    for name in ("noise.pt", "deep/noise.safetensors", "notes.txt"):
        (folder / name).write_bytes(b"noise")
    (tmp_path / "secret.pt").write_bytes(b"secret")
    (folder / "link.pt").symlink_to(tmp_path / "secret.pt")
    (folder / "loop.pt").symlink_to(folder / "loop.pt")
    (folder / "folder.pt").mkdir()
    opened = Door(make_settings(fixed_latents={"dir": folder}))
    yield opened
    await opened.close()


@pytest.mark.parametrize("name", ["noise.pt", "deep/noise.safetensors", "deep/../noise.pt", "./noise.pt"])
async def test_latents_below_the_operators_folder(latent_door: Door, tmp_path: Path, name: str) -> None:
    """A relative path names a file there."""
    latents = (await ask(latent_door, latent_path=name)).numbers.params.latents
    assert latents == (tmp_path / "latents" / name).resolve()


@pytest.mark.parametrize(
    "name",
    [
        "../secret.pt",
        "link.pt",
        "loop.pt",
        "folder.pt",
        "notes.txt",
        "missing.pt",
        "~/noise.pt",
        "x" * 5000,
        ".",
    ],
)
async def test_latents_elsewhere_are_refused(latent_door: Door, tmp_path: Path, name: str) -> None:
    """No way out of the folder, and no word about what lies around it."""
    error = await refused(latent_door, latent_path=name)
    assert error["param"] == "latent_path"
    assert str(tmp_path) not in error["message"]


async def test_absolute_latent_paths_are_refused(latent_door: Door, tmp_path: Path) -> None:
    """Also those that lie in the folder: clients do not know where it is."""
    error = await refused(latent_door, latent_path=str(tmp_path / "latents" / "noise.pt"))
    assert error["param"] == "latent_path"


async def test_latents_are_off_by_default(door: Door) -> None:
    """Without a folder no request may name a file; an operator's fixed file serves every request."""
    assert "not enabled" in (await refused(door, latent_path="noise.pt"))["message"]
    fixed = Door(make_settings().model_copy(update={"fixed_latent_path": Path("/latents/fixed.pt")}))
    assert (await ask(fixed)).numbers.params.latents == Path("/latents/fixed.pt")
    await fixed.close()
