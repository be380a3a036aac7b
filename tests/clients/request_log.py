"""What each client sends, captured at a door in front of the server, as the tables of `docs/clients.md`.

Every client takes one walk over the calls that it has for videos. Values are shown where their spelling
matters (numbers, booleans, short words); prompts and pictures are not.
"""

from __future__ import annotations

import email.message
import email.parser
import email.policy
import json
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from PIL import Image

from tests.clients.places import NODE, NODE_FOLDER, PYTHON, ROOT, environment
from tests.clients.recorder import Recorded, recorded

DOCUMENT = ROOT / "docs/clients.md"
HEADER = "| request | body | fields |\n| --- | --- | --- |\n"
MAX_VALUE = 40
_PLACE = re.compile(r"(<!-- log: (?P<client>[\w-]+) -->\n)(?P<rows>.*?)(<!-- end -->)", re.DOTALL)
_VIDEO_ID = re.compile(r"video_[0-9a-f]{32}")
_OF_THE_MACHINE = re.compile(r"^curl/.*")
_WALKS = ROOT / "tests/clients/walks"


@dataclass(frozen=True, slots=True)
class Walk:
    """A client's walk: the command before the server's address and a picture, and what comes after them."""

    command: Sequence[str]
    marker: str | None = None
    path: Sequence[str] = ()
    """Folders of `make clients` for Python's import path."""
    after: Sequence[str] = ()


WALKS: Mapping[str, Walk] = MappingProxyType(
    {
        "openai-python-3": Walk((PYTHON, str(_WALKS / "openai_python.py"))),
        "openai-python-2": Walk((PYTHON, str(_WALKS / "openai_python.py")), "openai2", ("openai2",)),
        "openai-node": Walk((str(NODE), str(NODE_FOLDER / "openai.walk.mjs")), "node"),
        "tanstack-ai": Walk((str(NODE), str(NODE_FOLDER / "tanstack.walk.mjs")), "node"),
        "litellm-openai": Walk(
            (PYTHON, str(_WALKS / "litellm_sdk.py")), "litellm", ("litellm",), after=("openai",)
        ),
        "litellm-hosted-vllm": Walk(
            (PYTHON, str(_WALKS / "litellm_sdk.py")), "litellm", ("litellm",), after=("hosted_vllm",)
        ),
        "curl": Walk(("sh", str(_WALKS / "curl.sh")), "curl"),
        "httpx": Walk((PYTHON, str(_WALKS / "httpx_client.py"))),
    }
)


class _Written(str):
    """A number as it was written."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A walk that was taken: what it printed, and the table of what it sent."""

    printed: str
    table: str


def take(client: str, url: str) -> Taken:
    """Let a client take its walk against the server at `url`.

    Raises:
        subprocess.CalledProcessError: the walk failed.
    """
    walk = WALKS[client]
    with tempfile.TemporaryDirectory() as folder, recorded(url) as (door, requests):
        picture = Path(folder) / "first.png"
        Image.new("RGB", (64, 32), "red").save(picture)
        run = subprocess.run(
            [*walk.command, door, str(picture), *walk.after],
            env=environment(*walk.path),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    return Taken(run.stdout, table(requests))


def table(requests: Sequence[Recorded]) -> str:
    """One row a kind of request, in the order of first sight, below the client's name for itself."""
    agents = dict.fromkeys(_OF_THE_MACHINE.sub("curl", request.headers["user-agent"]) for request in requests)
    rows = dict.fromkeys(row(request) for request in requests)
    return f"\n`User-Agent: {', '.join(agents)}`\n\n{HEADER}{''.join(rows)}\n"


def row(request: Recorded) -> str:
    target = _VIDEO_ID.sub("{video_id}", request.target)
    cells = (f"`{request.method} {target}`", body_type(request), ", ".join(fields(request)))
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"


def body_type(request: Recorded) -> str:
    if not request.body:
        return ""
    chunked = ", chunked" if "transfer-encoding" in request.headers else ""
    return f"`{request.headers['content-type'].split(';')[0]}`{chunked}"


def fields(request: Recorded) -> Iterator[str]:
    if not request.body:
        return iter(())
    if "json" in request.headers["content-type"]:
        return json_fields(json.loads(request.body, parse_float=_Written))
    return (part_field(part) for part in parts(request))


def json_fields(body: Mapping[str, object]) -> Iterator[str]:
    for name, value in body.items():
        text = value if isinstance(value, _Written) else json.dumps(value)
        yield spelt(name, text, shown=name != "prompt")


def parts(request: Recorded) -> Iterator[email.message.MIMEPart]:
    head = f"Content-Type: {request.headers['content-type']}\r\n\r\n".encode()
    parser = email.parser.BytesParser(policy=email.policy.HTTP)
    return parser.parsebytes(head + request.body).iter_parts()


def part_field(part: email.message.MIMEPart) -> str:
    name = str(part.get_param("name", header="content-disposition"))
    filename = part.get_filename()
    if filename is None:
        value = part.get_payload()
        return spelt(name, str(value), shown=name != "prompt")
    filename = "…/first.png" if filename.startswith("/") else filename
    return f"`{name}` = file `{filename}` of type `{part.get_content_type()}`"


def spelt(name: str, value: str, *, shown: bool) -> str:
    value = _VIDEO_ID.sub("{video_id}", value)
    return f"`{name}={value}`" if shown and len(value) <= MAX_VALUE else f"`{name}`"


def documented(client: str, text: str) -> str:
    """The client's table in the document's text."""
    return next(match["rows"] for match in _PLACE.finditer(text) if match["client"] == client)


def renewed(text: str, tables: Mapping[str, str]) -> str:
    """The document's text with these clients' tables."""
    return _PLACE.sub(lambda match: match[1] + tables.get(match["client"], match["rows"]) + match[4], text)
