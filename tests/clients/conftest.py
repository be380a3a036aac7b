"""What the suites of other people's clients share."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest
from openai import AsyncOpenAI, OpenAI

from tests.clients.official import Api, settled
from tests.clients.places import URL_VARIABLE
from tests.serving import PATIENCE_S


@pytest.fixture(scope="session")
def url(request: pytest.FixtureRequest) -> str:
    """The server to talk to: the one that the variable names, or else that of this test run."""
    given = os.environ.get(URL_VARIABLE)
    if given is not None:
        return given
    address: str = request.getfixturevalue("served").url
    return address


@pytest.fixture(params=[OpenAI, AsyncOpenAI], ids=["sync", "async"])
async def api(request: pytest.FixtureRequest, url: str) -> AsyncIterator[Api]:
    client: Api = request.param(base_url=f"{url}/v1", api_key="none", timeout=PATIENCE_S)
    yield client
    await settled(client.close())
