"""The image holds what its default command needs."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from server.connections import parse_url
from server.settings import load

ROOT = Path(__file__).parents[2]
COPY = re.compile(r"^COPY (\S+) /app/(\S+)$", re.MULTILINE)


def test_models_of_the_default_command_are_copied_beside_its_configuration() -> None:
    """configs/tiny.yaml names folders relative to itself; in the image they lie where it looks."""
    copied = COPY.findall((ROOT / "Dockerfile").read_text())
    assert ("configs", "configs") in copied
    for model in load(ROOT / "configs" / "tiny.yaml").models:
        folder = (ROOT / "configs" / model.path).resolve().relative_to(ROOT)
        assert any(folder.is_relative_to(source) and source == target for source, target in copied), folder


def test_whatever_is_copied_reaches_the_builder() -> None:
    """.dockerignore leaves out all but what the Dockerfile copies."""
    admitted = {
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")
    }
    copies = re.findall(r"^COPY (?!--from)(.+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    sources = {source for line in copies for source in line.split()[:-1]}
    assert {Path(source).parts[0] for source in sources} == admitted
    assert all((ROOT / source).exists() for source in sources)


def test_the_servers_of_compose_find_each_other() -> None:
    """The database's URL is one that a start takes, and its socket's folder is shared by both."""
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    url = parse_url(services["reelserve"]["environment"]["REELSERVE_STORE__URL"])
    database = services["postgres"]["environment"]
    assert (url.username, url.database) == (database["POSTGRES_USER"], database["POSTGRES_DB"])
    shared = f"socket:{url.query['host']}"
    assert shared in services["reelserve"]["volumes"]
    assert shared in services["postgres"]["volumes"]


def test_nothing_listens_to_others_without_keys_unless_it_says_so() -> None:
    """The image leaves that to whoever runs it; compose says it, and publishes on loopback only."""
    assert "ALLOW_PUBLIC" not in (ROOT / "Dockerfile").read_text()
    service = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]["reelserve"]
    assert service["environment"]["REELSERVE_SERVER__ALLOW_PUBLIC"] == "true"
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
