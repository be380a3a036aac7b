"""What a missing capability does to the tests that need it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
MARKED = "import pytest\n\n@pytest.mark.{marker}\ndef test_it() -> None:\n    pass\n"


def outcome(folder: Path, *markers: str, ci: str) -> str:
    """The closing line of pytest over a test for each marker, on a machine without GPU and programs."""
    shutil.copy(ROOT / "tests" / "conftest.py", folder)
    for marker in markers:
        (folder / f"test_{marker}.py").write_text(MARKED.format(marker=marker))
    environment = os.environ | {"CI": ci, "CUDA_VISIBLE_DEVICES": "", "PATH": str(folder)}
    command = [sys.executable, "-m", "pytest", "-q", "-c", str(ROOT / "pyproject.toml"), str(folder)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return run.stdout.strip().splitlines()[-1]


def test_is_skipped_on_a_developers_machine(tmp_path: Path) -> None:
    """Nobody needs every program to run the tests."""
    assert "1 skipped" in outcome(tmp_path, "curl", ci="false")


def test_fails_in_ci(tmp_path: Path) -> None:
    """CI never turns green by leaving out what it lacks; its machines have no GPU."""
    assert outcome(tmp_path, "curl", "gpu", ci="true").startswith("1 skipped, 1 error")
