"""The tables of cases and of promises name tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


@pytest.mark.parametrize("document", ["docs/cases.md", "docs/security.md"])
def test_every_named_test_exists(document: str) -> None:
    """A test that is renamed or dropped does not leave its row without one."""
    rows = [line for line in (ROOT / document).read_text().splitlines() if line.startswith("| ")][2:]
    assert len(rows) > 20
    for row in rows:
        named = NAMED.findall(row)
        assert named, row
        for file, test in named:
            source = (ROOT / file).read_text()
            assert re.search(rf"^(async )?def {test}\(", source, re.MULTILINE), (file, test)
