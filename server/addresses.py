"""Which addresses the server itself may connect to: by default only those that the whole internet can reach.

A name says nothing: what it resolves to is checked, and that very address is then connected to
(`server.outbound`).
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from threading import Thread
from urllib.parse import SplitResult, urlsplit

from server.echo import shown

SCHEMES = ("http", "https")

_GLOBAL_UNICAST = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")
# What `is_global` of every Python from 3.11 on does not say: multicast, 6to4 relays; documentation.
_REFUSED_4 = (IPv4Network("224.0.0.0/4"), IPv4Network("192.88.99.0/24"))
_REFUSED_6 = (IPv6Network("3fff::/20"),)

Address = IPv4Address | IPv6Address


class AddressRefused(ValueError):
    """A target that this server must not connect to; the message says which and why."""


def check_url(url: str, *, allow_private: bool = False) -> SplitResult:
    """The parts of a URL that may be asked, as far as can be told without resolving its name.

    Raises:
        AddressRefused: not http(s), without a host, with a name or password, or an address that is refused.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise AddressRefused(f"{shown(url)} is not a URL: {error}") from None
    if parts.scheme not in SCHEMES:
        raise AddressRefused(f"{shown(url)} is not allowed; it must start with http:// or https://")
    if not host:
        raise AddressRefused(f"{shown(url)} is not allowed; it names no host")
    if parts.username is not None or parts.password is not None:
        raise AddressRefused("a URL with a user name or a password is not allowed")
    if (address := _literal(host)) is not None:
        check_address(address, allow_private=allow_private)
    return parts


def _literal(host: str) -> Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def check_address(address: Address, *, allow_private: bool = False) -> None:
    """Nothing, if the server may connect there.

    Raises:
        AddressRefused: it is not an address of one host that the whole internet can reach.
    """
    if not allow_private and not is_public(address):
        raise AddressRefused(f"{address} is not a public address")


def is_public(address: Address) -> bool:
    """Whether the whole internet can reach this one host. An IPv4 address in an IPv6 one is judged itself."""
    if isinstance(address, IPv4Address):
        return address.is_global and not any(address in network for network in _REFUSED_4)
    embedded = _embedded(address)
    if embedded is not None:
        return is_public(embedded)
    refused = any(address in network for network in _REFUSED_6)
    return address in _GLOBAL_UNICAST and address.is_global and not refused


def _embedded(address: IPv6Address) -> IPv4Address | None:
    """The IPv4 host behind an address of a translator or a tunnel: mapped, NAT64, 6to4."""
    if address in _NAT64:
        return IPv4Address(address.packed[-4:])
    return address.ipv4_mapped or address.sixtofour


async def resolve(host: str, port: int, *, allow_private: bool = False) -> tuple[str, ...]:
    """Every address of `host`, all of them checked.

    Raises:
        AddressRefused: one of them is refused: then none is used.
        OSError: there is no such name.
    """
    found = tuple(dict.fromkeys(await _look_up(host, port)))
    for address in found:
        _check_found(host, address, allow_private)
    return found


def _check_found(host: str, address: str, allow_private: bool) -> None:
    try:
        check_address(ip_address(address), allow_private=allow_private)
    except AddressRefused as refusal:
        raise AddressRefused(f"{shown(host)} is not allowed: {refusal}") from None


async def _look_up(host: str, port: int) -> list[str]:
    """What the system's resolver says.

    In a thread of its own: a name server that does not answer takes no place among the threads that
    jobs work in, and does not keep the process from ending.
    """
    loop = asyncio.get_running_loop()
    found: asyncio.Future[list[str]] = loop.create_future()

    def work() -> None:
        try:
            settle(list(_addresses(host, port)), None)
        except (OSError, UnicodeError) as error:
            settle([], OSError(f"cannot resolve {shown(host)}: {error}"))

    def settle(result: list[str], error: OSError | None) -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(_set, found, result, error)

    Thread(target=work, name="resolver", daemon=True).start()
    return await found


def _addresses(host: str, port: int) -> Iterator[str]:
    for family, _, _, _, place in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        if family in (socket.AF_INET, socket.AF_INET6):
            yield str(place[0])


def _set(found: asyncio.Future[list[str]], result: list[str], error: OSError | None) -> None:
    if found.done():  # nobody waits any more
        return
    if error is not None:
        found.set_exception(error)
    else:
        found.set_result(result)
