"""The documents say what the code does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_tables_equal_the_code() -> None:
    """Routes, fields, settings, formats, the job object and every error are listed as they are."""
    command = [sys.executable, "-m", "scripts.readme_tables", "--check"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_named_files_exist() -> None:
    """Every relative link of the documents leads to a file."""
    for document in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")):
        for link in relative_links(document.read_text()):
            assert (document.parent / link).exists(), f"{document.name}: {link}"


def relative_links(text: str) -> list[str]:
    targets = [part.split(")")[0].split("#")[0] for part in text.split("](")[1:]]
    return [target for target in targets if target and "://" not in target]
