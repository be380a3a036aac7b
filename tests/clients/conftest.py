"""What the suites of other people's clients share."""

from __future__ import annotations

import os

import pytest

from tests.clients.places import URL_VARIABLE


@pytest.fixture(scope="session")
def url(request: pytest.FixtureRequest) -> str:
    """The server to talk to: the one that the variable names, or else that of this test run."""
    given = os.environ.get(URL_VARIABLE)
    if given is not None:
        return given
    address: str = request.getfixturevalue("served").url
    return address
