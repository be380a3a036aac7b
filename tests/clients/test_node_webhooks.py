"""Webhooks as openai-node verifies them."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.clients.places import NODE, NODE_FOLDER, environment
from tests.server.receiver import Received, receiving
from tests.server.running import serving
from tests.serving import PATIENCE_S

pytestmark = pytest.mark.node

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105 - of this test alone


def unwrap(received: Received, secret: str = SECRET, **changes: str) -> dict[str, Any]:
    """What openai-node's `webhooks.unwrap` returns, or the name of what it throws."""
    given = {"secret": secret, "body": received.body, "headers": received.headers} | changes
    command = [str(NODE), "webhook.mjs"]
    run = subprocess.run(
        command,
        cwd=NODE_FOLDER,
        env=environment(),
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=True,
    )
    event: dict[str, Any] = json.loads(run.stdout)
    return event


async def test_the_official_client_verifies_an_event(tmp_path: Path) -> None:
    """A real delivery is unwrapped; another secret or another body is refused."""
    with receiving() as receiver:
        hooks = ({"url": receiver.url, "secret": SECRET, "allow_private": True},)
        async with serving(tmp_path, webhooks=hooks) as server:
            made = (await server.post()).json()["id"]
            await server.finish()
            (received,) = await asyncio.to_thread(receiver.wait, 1, PATIENCE_S)
    event = await asyncio.to_thread(unwrap, received)
    assert (event["type"], event["data"]) == ("video.completed", {"id": made})
    for refused in (
        unwrap(received, "whsec_AAAA"),
        unwrap(received, body=received.body.replace(made, "video_x")),
    ):
        assert refused == {"refused": "InvalidWebhookSignatureError"}
