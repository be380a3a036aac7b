from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import httpx
import pytest

from server.addresses import AddressRefused, check_url, is_public, resolve
from server.outbound import checked_client
from tests.server.receiver import receiving

TLS = Path(__file__).parent / "tls"
"""A certificate of `receiver.example` that nobody else trusts, and its key."""

PUBLIC = ["8.8.8.8", "1.1.1.1", "172.32.0.1", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"]
PRIVATE = [
    "127.0.0.1",
    "127.255.255.254",
    "0.0.0.0",  # noqa: S104 - refused, not bound to
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",  # where clouds keep credentials
    "100.64.0.1",  # carrier NAT
    "192.0.2.1",
    "198.18.0.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::127.0.0.1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::8.8.8.8",
    "2002:7f00:1::",  # 6to4 of 127.0.0.1
    "2002:a9fe:a9fe::1",
    "2001:0:7f00:1::",  # Teredo
    "2001:db8::1",
    "3fff::1",
    "fe80::1",
    "fe80::1%lo",
    "fc00::1",
    "fd12:3456::1",
    "fec0::1",
    "ff02::1",
]

REFUSED_URLS = [
    "http://127.0.0.1/",
    "http://127.1/",
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0177.0.0.1/",
    "http://0/",
    "http://localhost/",
    "http://LOCALHOST:8080/",
    "http://localhost./",
    "http://10.1.2.3:9000/x",
    "http://169.254.169.254/latest/meta-data/",
    "http://[::1]/",
    "http://[::]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[64:ff9b::7f00:1]/",
    "http://[2002:7f00:1::]/",
    "http://[fe80::1]/",
    "http://１２７.０.０.１/",
    "https://192.168.0.1/",
]


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses(address: str) -> None:
    """Hosts that the whole internet can reach, also behind a translator's address."""
    assert is_public(ip_address(address))


@pytest.mark.parametrize("address", PRIVATE)
def test_addresses_that_are_not_public(address: str) -> None:
    """Loopback, private, link-local, shared, reserved, multicast; in whatever IPv6 form they are wrapped."""
    assert not is_public(ip_address(address))


@pytest.mark.parametrize("url", REFUSED_URLS)
async def test_no_spelling_reaches_a_private_address(url: str) -> None:
    """Refused before anything is sent, however the address is written."""
    async with checked_client(timeout_s=60) as client:
        # httpx does not take all of these spellings, and not every resolver takes the rest.
        with pytest.raises((AddressRefused, httpx.InvalidURL, httpx.ConnectError)) as caught:
            await client.post(url, content=b"x")
    if isinstance(caught.value, httpx.ConnectError):
        assert "resolve" in str(caught.value)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("file:///etc/passwd", "http://"),
        ("ftp://example.com/", "http://"),
        ("gopher://example.com/", "http://"),
        ("//example.com/", "http://"),
        ("example.com", "http://"),
        ("", "http://"),
        ("http://", "no host"),
        ("http:///path", "no host"),
        ("http://:80/", "no host"),
        ("http://user@example.com/", "user name"),
        ("http://user:secret@example.com/", "user name"),
        ("http://[::1/", "not a URL"),
        ("http://example.com:port/", "not a URL"),
        ("http://example.com:99999/", "not a URL"),
        ("http://127.0.0.1/", "not a public address"),
        ("https://[::1]:8443/", "not a public address"),
    ],
)
def test_what_is_no_target_is_refused_by_its_text(url: str, told: str) -> None:
    """Scheme, host and literal addresses are judged without a resolver; credentials are not repeated."""
    with pytest.raises(AddressRefused, match=told) as caught:
        check_url(url)
    assert "secret" not in str(caught.value)


def test_what_may_be_asked() -> None:
    """Names are judged when they are resolved; private literals where the operator allows them."""
    assert check_url("https://example.com:8443/a?b").hostname == "example.com"
    assert check_url("HTTP://EXAMPLE.COM").scheme == "http"
    assert check_url("http://10.0.0.1/", allow_private=True).hostname == "10.0.0.1"


async def test_one_refused_address_refuses_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name with a public and a private address could be given either by its owner."""
    with monkeypatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", _answers("8.8.8.8", "10.0.0.1"))
        with pytest.raises(AddressRefused, match=r"example\.com.*10\.0\.0\.1"):
            await resolve("example.com", 80)
        assert await resolve("example.com", 80, allow_private=True) == ("8.8.8.8", "10.0.0.1")


async def test_the_checked_address_is_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name is resolved once; `Host` keeps it, and its port."""
    asked: list[str] = []
    with receiving() as receiver:
        with monkeypatch.context() as patch:
            patch.setattr(socket, "getaddrinfo", _answers("127.0.0.1", asked=asked))
            async with checked_client(allow_private=True, timeout_s=60) as client:
                url = f"http://receiver.example:{receiver.port}/x"
                assert (await client.post(url, content=b"{}")).status_code == 204
        (received,) = receiver.received
    assert received.headers["host"] == f"receiver.example:{receiver.port}"
    assert asked == ["receiver.example"]


@pytest.mark.parametrize("name", ["receiver.example", "another.example"])
async def test_a_certificate_must_be_of_the_name(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Though the address is connected to, TLS asks for the name, and believes no certificate of another."""
    asked: list[str | None] = []
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(TLS / "receiver.pem")
    tls.sni_callback = lambda _socket, server_name, _context: asked.append(server_name)
    with receiving(tls=tls) as receiver, monkeypatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(TLS / "receiver.crt"))
        patch.setattr(socket, "getaddrinfo", _answers("127.0.0.1"))
        async with checked_client(allow_private=True, timeout_s=60) as client:
            sending = client.post(f"https://{name}:{receiver.port}/", content=b"{}")
            if name == "receiver.example":
                assert (await sending).status_code == 204
            else:
                with pytest.raises(httpx.ConnectError, match="certificate verify failed"):
                    await sending
    assert asked == [name]


async def test_another_address_is_tried_when_one_takes_no_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A host with two addresses is up while one of them is."""
    with receiving() as receiver:
        with monkeypatch.context() as patch:
            patch.setattr(socket, "getaddrinfo", _answers("::1", "127.0.0.1"))
            async with checked_client(allow_private=True, timeout_s=60) as client:
                answer = await client.post(f"http://receiver.example:{receiver.port}/", content=b"{}")
        assert answer.status_code == 204


async def test_a_resolver_that_hangs_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asked may give up; the loop, its threads and the end of the process do not wait."""
    loop, hangs, release = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def hang(*_: Any, **__: Any) -> Any:
        loop.call_soon_threadsafe(hangs.set)
        release.wait(60)
        return []

    with monkeypatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", hang)
        asking = asyncio.create_task(resolve("example.com", 80))
        await hangs.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    release.set()


async def test_an_unknown_name_is_a_failed_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client's own error, as for a host that is down."""

    def unknown(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    async with checked_client(timeout_s=60) as client:
        with pytest.raises(httpx.ConnectError, match=r"nowhere\.invalid"):
            await client.get("http://nowhere.invalid/")


def _answers(*addresses: str, asked: list[str] | None = None) -> Any:
    """A resolver that knows one answer."""

    def getaddrinfo(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        if host in addresses:  # httpcore connects to what was resolved
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            return [(family, socket.SOCK_STREAM, 0, "", (host, port))]
        if asked is not None:
            asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (address, port)) for address in addresses]

    return getaddrinfo
