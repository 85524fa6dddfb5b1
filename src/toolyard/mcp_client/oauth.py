"""Sign-in at remote servers, with the SDK's OAuth client.

The user gets a URL (`on_authorize`) and signs in with a browser, which is redirected to a loopback port that is only
open meanwhile. Without a user, a server that requires a sign-in fails with an error that says so, and one with stored
tokens works.

The server names the sign-in URL, and we follow it from inside the user's network with the user's tokens. So the URL
must be on the server's own host, or on a public host over https.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import re
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from toolyard.config.models import ServerEntry
from toolyard.mcp_client.errors import ServerUnavailable
from toolyard.mcp_client.public_addresses import has_private_address, is_loopback, is_public, normalized_host
from toolyard.mcp_client.results import SecretMask
from toolyard.mcp_client.token_store import TokenFile

if TYPE_CHECKING:
    import httpx2
    from mcp.shared.auth import AuthorizationCodeResult

OnAuthorize = Callable[[str, str], None]
"""Shows the user the sign-in URL of a server (by name). Called on the pool's loop; must not block."""

_LOOPBACK = "127.0.0.1"
_CALLBACK_PATH = "/callback"
_SIGN_IN_SECONDS = 300.0
"""How long the user may take to sign in."""
_REQUEST_SECONDS = 10.0
_REQUEST_BYTES = 16 * 1024
_AMBIGUOUS_CHARS = re.compile(r"[\\\s\x00-\x1f]")
"""Browsers treat a backslash as a slash and drop white space, so they would contact another host than we checked."""
_CALLBACK_RESPONSE = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
    b"Toolyard has what it needs. You can close this page.\n"
)


class SignIn:
    """The sign-in at one server. `deadline` is the timeout of the start, which a sign-in extends."""

    def __init__(
        self, entry: ServerEntry, folder: str | None, on_authorize: OnAuthorize | None, mask: SecretMask
    ) -> None:
        self._entry = entry
        self._on_authorize = on_authorize
        self._tokens = TokenFile(folder, entry.name, entry.url or "", mask)
        self._callback: asyncio.Future[dict[str, str]] | None = None
        self._callback_server: asyncio.Server | None = None
        self._state = ""
        self._redirect = ""
        self.deadline: asyncio.Timeout | None = None

    async def auth(self) -> httpx2.Auth | None:
        """Returns the auth for requests; None if there is no way to sign in or the entry has its own credentials."""
        agreed = self._entry.oauth
        own = any(name.lower() == "authorization" for name in self._entry.headers)
        able = self._on_authorize is not None or self._tokens.is_signed_in
        if own or not able or (agreed is not None and not agreed.enabled):
            return None
        # the import takes a while, and other servers share this loop
        await asyncio.to_thread(importlib.import_module, "mcp.client.auth")
        from mcp.client.auth import OAuthClientProvider
        from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata
        from pydantic import AnyUrl

        known = await self._tokens.get_client_info()
        self._redirect = self._redirect_uri(str(known.redirect_uris[0]) if known and known.redirect_uris else "")
        if agreed is not None and agreed.client_id:
            fixed = OAuthClientInformationFull(
                client_id=agreed.client_id,
                client_secret=agreed.client_secret,
                redirect_uris=[AnyUrl(self._redirect)],
                token_endpoint_auth_method="client_secret_post" if agreed.client_secret else "none",
            )
            if known is None or known.client_id != agreed.client_id:
                await self._tokens.set_client_info(fixed)
        provider = OAuthClientProvider(
            self._entry.url or "",
            OAuthClientMetadata(
                client_name="Toolyard",
                redirect_uris=[AnyUrl(self._redirect)],
                scope=" ".join(agreed.scopes) if agreed is not None and agreed.scopes else None,
                token_endpoint_auth_method="none" if agreed is None or not agreed.client_secret else None,
            ),
            self._tokens,
            redirect_handler=self.start_sign_in,
            callback_handler=self._wait_for_callback,
        )
        self._tokens.context = provider.context
        return provider

    async def check_request(self, request: httpx2.Request) -> None:
        """Request hook: blocks requests to hosts that the server must not send us to, after resolving names."""
        await self._check_url(str(request.url))

    async def _check_url(self, url: str) -> None:
        own = self._entry.url or ""
        if not is_allowed_target(own, url):
            raise self._forbidden_host_error(_host_of(url))
        home, host = (normalized_host(urlsplit(each).hostname or "") for each in (own, url))
        if host != home and not is_loopback(host) and has_private_address(await _resolve_host(host)):
            raise self._forbidden_host_error(host)

    def _forbidden_host_error(self, host: str) -> ServerUnavailable:
        why = f"it sends us to {host}, which is neither its own host nor a public one over https"
        return self._sign_in_error(why, "Ask the operator of the server where to sign in.")

    def _redirect_uri(self, known: str) -> str:
        """Returns the redirect URI; a known one is reused because servers register it."""
        agreed = self._entry.oauth
        if agreed is not None and agreed.redirect_uri:
            return agreed.redirect_uri
        if agreed is not None and agreed.redirect_port:
            return f"http://{_LOOPBACK}:{agreed.redirect_port}{_CALLBACK_PATH}"
        if known:
            return known
        with socket.socket() as probe:
            probe.bind((_LOOPBACK, 0))
            return f"http://{_LOOPBACK}:{probe.getsockname()[1]}{_CALLBACK_PATH}"

    async def start_sign_in(self, url: str) -> None:
        """Shows the user the sign-in URL and opens the callback port."""
        if self._on_authorize is None:
            raise ServerUnavailable(
                self._entry.name,
                "requires you to sign in again",
                hint="Run `toolyard sync` in a terminal.",
                retryable=False,
            )
        await self._check_url(url)
        loop = asyncio.get_running_loop()
        if self.deadline is not None:
            self.deadline.reschedule(loop.time() + _SIGN_IN_SECONDS)
        self._callback = loop.create_future()
        self._state = parse_qs(urlsplit(url).query).get("state", [""])[0]
        port = urlsplit(self._redirect).port or 80
        try:
            self._callback_server = await asyncio.start_server(
                self._handle_callback, _LOOPBACK, port, limit=_REQUEST_BYTES
            )
        except OSError:
            raise self._sign_in_error(
                f"port {port}, to which the browser returns, is in use", "Free the port, and try again."
            ) from None
        self._on_authorize(self._entry.name, url)

    async def _wait_for_callback(self) -> AuthorizationCodeResult:
        from mcp.shared.auth import AuthorizationCodeResult

        assert self._callback is not None and self._callback_server is not None  # noqa: S101, PT018 - sign-in started
        try:
            async with asyncio.timeout(_SIGN_IN_SECONDS):
                answer = await self._callback
        except TimeoutError:
            raise self._sign_in_error("it was not completed in time", "Try again.") from None
        finally:
            self._callback_server.close()
        if "code" not in answer:
            raise self._sign_in_error("the sign-in was refused", "Sign in with an account that may use the server.")
        return AuthorizationCodeResult(code=answer["code"], state=answer.get("state"), iss=answer.get("iss"))

    async def _handle_callback(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Handles a request to the callback port. Any local user can send one; only the browser's has our `state`."""
        with contextlib.suppress(OSError, ValueError, TimeoutError):
            async with asyncio.timeout(_REQUEST_SECONDS):
                parts = (await reader.readline()).split()
                target = urlsplit(parts[1].decode("ascii") if len(parts) > 1 else "")
                answer = {name: values[0] for name, values in parse_qs(target.query).items()}
                if target.path == urlsplit(self._redirect).path and answer.get("state") == self._state:
                    writer.write(_CALLBACK_RESPONSE)
                    await writer.drain()
                    if self._callback is not None and not self._callback.done():
                        self._callback.set_result(answer)
        writer.close()

    def _sign_in_error(self, why: str, hint: str) -> ServerUnavailable:
        return ServerUnavailable(self._entry.name, f"did not complete the sign-in: {why}", hint=hint)


def is_allowed_target(server: str, url: str) -> bool:
    """Whether a server at one URL may send us to the other one for a sign-in."""
    try:
        own, other = urlsplit(server), urlsplit(url)
        home, host = normalized_host(own.hostname or ""), normalized_host(other.hostname or "")
        is_exact = other.port != 0 and not _AMBIGUOUS_CHARS.search(url)
    except ValueError:  # brackets without an address, or an invalid port
        return False
    if not is_exact or other.scheme not in {"http", "https"} or not host:
        return False
    if host == home and (own.scheme == "http" or other.scheme == "https"):
        return True
    if is_loopback(home) and is_loopback(host):  # both on the user's own machine
        return True
    return other.scheme == "https" and is_public(host)


def _host_of(url: str) -> str:
    """Returns the host of a URL for a message: the rest may contain secrets."""
    try:
        return urlsplit(url).hostname or "nowhere"
    except ValueError:
        return "an address that cannot be read"


async def _resolve_host(host: str) -> list[str]:
    """Returns the addresses of a host; empty if it cannot be resolved here, as behind a proxy."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return [str(address[4][0]) for address in found]
