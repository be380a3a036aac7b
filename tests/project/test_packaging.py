"""The project's own description: what it requires, what is locked, what a wheel holds."""

from __future__ import annotations

import subprocess
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
REQUIREMENTS = [
    Requirement(text)
    for text in (
        *PROJECT["project"]["dependencies"],
        *(text for extra in PROJECT["project"]["optional-dependencies"].values() for text in extra),
    )
]


def locked() -> Iterator[tuple[str, Version]]:
    for line in (ROOT / "requirements.lock").read_text().splitlines():
        if not line.startswith("#"):
            name, version = line.split("==")
            yield name, Version(version)


def project_files() -> list[Path]:
    """Every file that git knows."""
    command = ["git", "ls-files", "-z"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in names.split("\0") if name and (ROOT / name).is_file()]


@pytest.mark.parametrize("requirement", REQUIREMENTS, ids=lambda requirement: requirement.name)
def test_the_lock_satisfies_each_requirement(requirement: Requirement) -> None:
    """Whatever pyproject.toml asks for is locked, at a version that it admits."""
    versions = {canonicalize_name(name): version for name, version in locked()}
    assert requirement.specifier.contains(versions[canonicalize_name(requirement.name)])


def test_the_lock_fits_every_platform() -> None:
    """No local version (`+cpu`) and nothing that exists only beside one kind of GPU."""
    for name, version in locked():
        assert version.local is None, name
        assert not name.startswith(("nvidia-", "cuda-", "triton")), name


def test_the_lock_is_sorted() -> None:
    """A renewed lock differs only where a version does."""
    lines = (ROOT / "requirements.lock").read_text().splitlines()[1:]
    assert lines == sorted(lines, key=str.upper)
    assert len(lines) == len(dict(locked()))


@pytest.mark.parametrize("version", ["2.11.0", "2.13.0", "2.13.0+cpu", "2.11.0+cu130"])
def test_torch_may_be_the_one_that_is_there(version: str) -> None:
    """Machines with a GPU keep the torch that fits their driver."""
    (torch,) = (requirement for requirement in REQUIREMENTS if requirement.name == "torch")
    assert torch.specifier.contains(version)


def test_every_data_file_is_packaged() -> None:
    """A wheel holds the tiny checkpoints, whole: no file beside the code is forgotten."""
    globs = PROJECT["tool"]["setuptools"]["package-data"]
    for path in project_files():
        relative = path.relative_to(ROOT)
        if relative.parts[0] in ("encoding", "pipelines", "server") and path.suffix != ".py":
            assert any(
                matches(relative, package, pattern) for package in globs for pattern in globs[package]
            ), path


def test_every_folder_of_code_is_a_package() -> None:
    """setuptools finds a folder only by its `__init__.py`."""
    for path in project_files():
        relative = path.relative_to(ROOT)
        if relative.parts[0] in ("encoding", "pipelines", "server") and path.suffix == ".py":
            assert (path.parent / "__init__.py").exists(), relative


def matches(path: Path, package: str, pattern: str) -> bool:
    """Whether `path` is data of `package` by setuptools' glob, where `**/` is any depth, none too."""
    folder = Path(*package.split("."))
    if not path.is_relative_to(folder):
        return False
    return fnmatch(str(path.relative_to(folder)), pattern.replace("**/", "*"))


def test_no_file_names_a_folder_of_one_machine() -> None:
    """What works here works in any clone."""
    here = {str(ROOT), str(Path.home())} - {"/"}
    for path in project_files():
        content = path.read_bytes()
        assert not [folder for folder in here if folder.encode() in content], path
