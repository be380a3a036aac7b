"""The socket that the server listens on."""

from __future__ import annotations

import asyncio
import socket

from server.serving import _listen
from tests.server.door import make_settings


async def test_small_answers_are_sent_at_once() -> None:
    """Or the second packet of each would wait for the client's word on the first one, 40 ms and more."""
    accepted = asyncio.get_running_loop().create_future()
    listener = _listen(make_settings(server={"port": 0}))
    server = await asyncio.start_server(lambda _, writer: accepted.set_result(writer), sock=listener)
    async with server:
        with socket.create_connection(listener.getsockname()):
            writer = await accepted
            option = writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            writer.close()
    assert option != 0
