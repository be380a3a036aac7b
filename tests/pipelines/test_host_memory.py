"""What a container's limit leaves of the host's memory, by folders that look like the kernel's."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from pipelines.host_memory import available_bytes

GIB = 2**30
STAT = "anon 5368709120\nfile 4294967296\n{0}inactive_file 1073741824\n{0}active_file 536870912\n"
"""Of 4 GiB of cache, 1.5 can be taken back."""


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with 100 GiB to give."""
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=100 * GIB))


def group(folder: Path, limit: object, used: int, version: int = 2) -> None:
    """A control group at `folder`."""
    names = {1: ("memory.limit_in_bytes", "memory.usage_in_bytes"), 2: ("memory.max", "memory.current")}
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in zip(names[version], (limit, used), strict=True):
        (folder / name).write_text(f"{value}\n")
    (folder / "memory.stat").write_text(STAT.format("" if version == 2 else "total_"))


def available(folder: Path, ours: str) -> int:
    (folder / "ours").write_text(ours)
    return available_bytes(folder / "sys", folder / "ours")


def test_without_groups_the_machine_says(tmp_path: Path) -> None:
    """As where the kernel has none, and where they set no limit."""
    assert available_bytes(tmp_path / "sys", tmp_path / "ours") == 100 * GIB
    group(tmp_path / "sys/ours", "max", 10 * GIB)
    assert available(tmp_path, "0::/ours\n") == 100 * GIB


def test_a_limit_leaves_what_is_not_used(tmp_path: Path) -> None:
    """Pages of files count as free: the kernel takes them back before it ends a process."""
    group(tmp_path / "sys/some/ours", 16 * GIB, 10 * GIB)
    assert available(tmp_path, "0::/some/ours\n") == 7.5 * GIB


def test_the_smaller_one_counts(tmp_path: Path) -> None:
    """Of the machine's, our group's and those of the groups above it; never less than none."""
    group(tmp_path / "sys/some/ours", 500 * GIB, 10 * GIB)
    assert available(tmp_path, "0::/some/ours\n") == 100 * GIB
    group(tmp_path / "sys/some", 40 * GIB, 30 * GIB)
    assert available(tmp_path, "0::/some/ours\n") == 11.5 * GIB
    group(tmp_path / "sys", 20 * GIB, 19 * GIB)
    assert available(tmp_path, "0::/some/ours\n") == 2.5 * GIB
    group(tmp_path / "sys/some/ours", 10 * GIB, 15 * GIB)
    assert available(tmp_path, "0::/some/ours\n") == 0


@pytest.mark.parametrize("name", ["/", "/docker/1234", "/../other"])
def test_a_container_sees_its_group_as_the_root(name: str, tmp_path: Path) -> None:
    """Whatever the machine calls it."""
    group(tmp_path / "sys", 16 * GIB, 10 * GIB)
    group(tmp_path / "other", 1 * GIB, 1 * GIB)
    assert available(tmp_path, f"0::{name}\n") == 7.5 * GIB


def test_groups_of_the_first_version(tmp_path: Path) -> None:
    """One tree for each controller; no limit is a very large one."""
    ours = "5:devices:/\n4:memory,hugetlb:/some/ours\n1:cpu:/some\n0::/\n"
    group(tmp_path / "sys/memory/some/ours", 9223372036854771712, 10 * GIB, version=1)
    assert available(tmp_path, ours) == 100 * GIB
    group(tmp_path / "sys/memory/some", 16 * GIB, 10 * GIB, version=1)
    assert available(tmp_path, ours) == 7.5 * GIB


def test_of_the_kernel_that_runs_here() -> None:
    """Its own files can be read."""
    assert 0 <= available_bytes() <= 100 * GIB
