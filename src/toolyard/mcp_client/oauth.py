"""Signing in at remote servers, with the SDK's OAuth client.

The user is shown an address (`on_authorize`) and signs in there with a browser, which comes back to a port of this
machine's loopback that is only listened on meanwhile. Where nobody can be shown an address, a server that wants a
sign-in is an error that says so, and one that has been signed in at before is used with its kept tokens.

Where to sign in is the server's to say, and we go where it says, from inside the user's network and with the user's
tokens. So it has to be the server's own host, or one of the world's over https.
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
from toolyard.mcp_client.secret_masking import SecretMask
from toolyard.mcp_client.token_store import TokenFile

if TYPE_CHECKING:
    import httpx2
    from mcp.shared.auth import AuthorizationCodeResult

OnAuthorize = Callable[[str, str], None]
"""Shows the user of a server (by name) the address to sign in at. Called on the pool's loop; returns at once."""

_LOOPBACK = "127.0.0.1"
_CALLBACK_PATH = "/callback"
_SIGN_IN_SECONDS = 300.0
"""How long a person may take to sign in."""
_REQUEST_SECONDS = 10.0
_REQUEST_BYTES = 16 * 1024
_AMBIGUOUS_CHARS = re.compile(r"[\\\s\x00-\x1f]")
"""Browsers take a backslash for a slash and drop white space, so that the host they ask is another one than ours."""
_CALLBACK_RESPONSE = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
    b"Toolyard has what it needs. You can close this page.\n"
)


class SignIn:
    """The sign-in at one server; `deadline` is the start it may hold up."""

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
        """What signs requests; None where that cannot be done, or the entry brings its own credentials."""
        agreed = self._entry.oauth
        own = any(name.lower() == "authorization" for name in self._entry.headers)
        able = self._on_authorize is not None or self._tokens.is_signed_in
        if own or not able or (agreed is not None and not agreed.enabled):
            return None
        await asyncio.to_thread(importlib.import_module, "mcp.client.auth")  # it takes a while, and others wait here
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
        """A hook of the client: stops a request to where a server may not send us, also by a name."""
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
        return self._sign_in_error(why, "Ask whoever runs the server where to sign in.")

    def _redirect_uri(self, known: str) -> str:
        """Where the browser comes back to: the same place again, because servers remember it."""
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
        """Have the user sign in at an address that the server named."""
        if self._on_authorize is None:
            raise ServerUnavailable(
                self._entry.name,
                "wants you to sign in again",
                hint="`toolyard sync` in a terminal asks you to.",
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
                f"the browser cannot come back, because port {port} is taken", "Free the port, and try again."
            ) from None
        self._on_authorize(self._entry.name, url)

    async def _wait_for_callback(self) -> AuthorizationCodeResult:
        from mcp.shared.auth import AuthorizationCodeResult

        assert self._callback is not None and self._callback_server is not None  # noqa: S101, PT018 - `start_sign_in` came before
        try:
            async with asyncio.timeout(_SIGN_IN_SECONDS):
                answer = await self._callback
        except TimeoutError:
            raise self._sign_in_error("nobody signed in in time", "Try again.") from None
        finally:
            self._callback_server.close()
        if "code" not in answer:
            raise self._sign_in_error("the sign-in was refused", "Sign in as somebody who may use the server.")
        return AuthorizationCodeResult(code=answer["code"], state=answer.get("state"), iss=answer.get("iss"))

    async def _handle_callback(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request to the port. Anybody on this machine can send one; the browser's own carries our `state`."""
        with contextlib.suppress(OSError, ValueError, TimeoutError):
            async with asyncio.timeout(_REQUEST_SECONDS):
                words = (await reader.readline()).split()
                target = urlsplit(words[1].decode("ascii") if len(words) > 1 else "")
                answer = {name: values[0] for name, values in parse_qs(target.query).items()}
                if target.path == urlsplit(self._redirect).path and answer.get("state") == self._state:
                    writer.write(_CALLBACK_RESPONSE)
                    await writer.drain()
                    if self._callback is not None and not self._callback.done():
                        self._callback.set_result(answer)
        writer.close()

    def _sign_in_error(self, why: str, hint: str) -> ServerUnavailable:
        return ServerUnavailable(self._entry.name, f"could not be signed in at: {why}", hint=hint)


def is_allowed_target(server: str, url: str) -> bool:
    """Whether a server at one address may name the other one for signing in."""
    try:
        own, other = urlsplit(server), urlsplit(url)
        home, host = normalized_host(own.hostname or ""), normalized_host(other.hostname or "")
        is_exact = other.port != 0 and not _AMBIGUOUS_CHARS.search(url)
    except ValueError:  # brackets around what is no address, or no port
        return False
    if not is_exact or other.scheme not in {"http", "https"} or not host:
        return False
    if host == home and (own.scheme == "http" or other.scheme == "https"):
        return True
    if is_loopback(home) and is_loopback(host):  # all of it on the user's own machine
        return True
    return other.scheme == "https" and is_public(host)


def _host_of(url: str) -> str:
    """What is shown of an address: the rest of it may hold secrets."""
    try:
        return urlsplit(url).hostname or "nowhere"
    except ValueError:
        return "an address that cannot be read"


async def _resolve_host(host: str) -> list[str]:
    """The addresses of a name; none where it cannot be looked up here, as behind a proxy."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return [str(address[4][0]) for address in found]
