"""What the document says of each client is what that client sends."""

from __future__ import annotations

import pytest

from tests.clients.request_log import DOCUMENT, WALKS, documented, take

CASES = [
    pytest.param(client, marks=[] if walk.marker is None else [getattr(pytest.mark, walk.marker)])
    for client, walk in WALKS.items()
    if not client.startswith("litellm")  # test_litellm.py takes those walks, and compares too
]


@pytest.mark.parametrize("client", CASES)
def test_the_log_is_what_the_client_sends(client: str, url: str) -> None:
    """Renew it with `python -m scripts.client_log` after a client's update."""
    assert take(client, url).table == documented(client, DOCUMENT.read_text())
