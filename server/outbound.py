"""How the server sends requests of its own: to checked addresses only, past no proxy, following nothing."""

from __future__ import annotations

import httpx

from server.addresses import resolve


class CheckedTransport(httpx.AsyncBaseTransport):
    """Resolves and checks the host of each request, and connects to the address that was checked.

    Resolving again, as any client would, could give another address (DNS rebinding). TLS and the header
    `Host` go by the name. No connection is kept: two names may share an address and not a certificate.
    """

    def __init__(self, *, allow_private: bool = False) -> None:
        self._allow_private = allow_private
        self._inner = httpx.AsyncHTTPTransport(
            verify=httpx.create_ssl_context(),  # certifi's authorities, or those of SSL_CERT_FILE
            trust_env=False,
            limits=httpx.Limits(max_keepalive_connections=0),
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request, trying each address of its host until one takes the connection.

        Raises:
            AddressRefused: an address of its host is refused.
            httpx.TransportError: no address could be connected to, or the connection failed.
        """
        addresses = await self._checked(request)
        failure = httpx.ConnectError(f"{request.url.host} has no address", request=request)
        for address in addresses:
            try:
                return await self._inner.handle_async_request(_pinned(request, address))
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:  # nothing was sent
                failure = httpx.ConnectError(str(error), request=request)
        raise failure

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _checked(self, request: httpx.Request) -> tuple[str, ...]:
        host, port = request.url.raw_host.decode("ascii"), request.url.port
        if port is None:
            port = 443 if request.url.scheme == "https" else 80
        try:
            return await resolve(host, port, allow_private=self._allow_private)
        except OSError as error:
            raise httpx.ConnectError(str(error), request=request) from None


def _pinned(request: httpx.Request, address: str) -> httpx.Request:
    """The same request to one address. `Host` was set from the name when the request was made."""
    return httpx.Request(
        request.method,
        request.url.copy_with(host=address),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": request.url.raw_host.decode("ascii")},
    )


def checked_client(*, allow_private: bool = False, timeout_s: float) -> httpx.AsyncClient:
    """A client over a `CheckedTransport`; `timeout_s` bounds each step of a request."""
    return httpx.AsyncClient(
        transport=CheckedTransport(allow_private=allow_private),
        timeout=timeout_s,
        trust_env=False,
        follow_redirects=False,
    )
