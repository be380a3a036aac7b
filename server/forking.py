"""Work on what clients sent, each in a process of its own that may die, and costs milliseconds to start."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from anyio import CancelScope, fail_after, move_on_after, to_thread

import server
from server.children import Ended, environment
from server.forked import STATUS, STATUS_MARK, Order

END_S = 5
"""How long a killed process may take to be gone."""
MAX_OUTPUT = 64 * 1024

_ROOT = Path(server.__file__).parent.parent


class ForkServer:
    """Has a process that runs `module`, a program that calls `server.forked.serve`, fork for each order.

    At most `limit` forks work side by side; the next ones wait for their turn. Started with the first order,
    and again when it is not there any more.
    """

    def __init__(self, module: str, limit: int) -> None:
        self._module = module
        self._slots = asyncio.Semaphore(limit)
        self._process: subprocess.Popen[bytes] | None = None
        self._orders: socket.socket | None = None

    async def run(self, order: Order, source: int, target: int, timeout_s: float) -> Ended:
        """Have the order done on these descriptors. Whatever happens, the fork has ended then.

        Raises:
            TimeoutError: it was killed because it took longer, not counting the wait for its turn.
            OSError: it could not be started.
        """
        async with self._slots:
            for _ in range(2):
                orders = self._started()
                answer = await _try(orders, order, [source, target], timeout_s)
                words, mark, status = answer.rpartition(STATUS_MARK)
                if mark:
                    return Ended(STATUS.unpack(status)[0], words)
                if self._orders is orders:
                    await self.close()
        raise OSError(f"the process of {self._module} ended unexpectedly, twice")

    def _started(self) -> socket.socket:
        if self._orders is None:
            self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                self._process = _start(self._module, theirs.fileno())
        return self._orders

    async def close(self) -> None:
        """End the process, and what its forks do."""
        orders, process = self._orders, self._process
        self._orders = self._process = None
        if orders is not None and process is not None:
            orders.close()
            await to_thread.run_sync(_end, process)


async def _try(orders: socket.socket, order: Order, descriptors: list[int], timeout_s: float) -> bytes:
    """What comes back, without a status if the process is not there any more."""
    leash, theirs = socket.socketpair()
    leash.setblocking(False)
    with leash:
        with theirs, suppress(ConnectionError):
            socket.send_fds(orders, [order.to_json()], [theirs.fileno(), *descriptors])
        try:
            with fail_after(timeout_s):
                return await _read(leash)
        finally:
            await _let_go(leash)


def _start(module: str, orders: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-P", "-s", "-m", module],
        stdin=orders,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={**environment(), "PYTHONPATH": str(_ROOT)},
        start_new_session=True,
    )


async def _read(leash: socket.socket) -> bytes:
    """All that comes back."""
    loop, answer = asyncio.get_running_loop(), bytearray()
    with suppress(ConnectionError):
        while (piece := await loop.sock_recv(leash, MAX_OUTPUT)) and len(answer) < MAX_OUTPUT:
            answer += piece
    return bytes(answer)


async def _let_go(leash: socket.socket) -> None:
    """Kill the fork if it still works, and wait until it is gone."""
    with CancelScope(shield=True), suppress(OSError):
        leash.shutdown(socket.SHUT_WR)
        with move_on_after(END_S):
            await _read(leash)


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
