"""Remote servers for tests: the SDK's own server in a thread, on the loopback, with or without a door-keeper."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from mcp.server.auth.provider import AccessToken, AuthorizationCode, RefreshToken, construct_redirect_uri
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import Context, MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from mcp.shared.exceptions import MCPError
from pydantic import AnyHttpUrl, BaseModel


class Weather(BaseModel):
    city: str
    wind: float | None


class Authority:
    """An authorization server that lets everybody in, and counts."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.refresh: dict[str, RefreshToken] = {}
        self.sign_ins = 0
        self.refreshes = 0

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[str(client_info.client_id)] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: Any) -> str:
        self.sign_ins += 1
        code = secrets.token_hex(16)
        self.codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=str(client.client_id),
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(self, client, authorization_code: str) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(self, client, authorization_code: AuthorizationCode) -> OAuthToken:
        return self._issue(authorization_code.client_id)

    async def load_refresh_token(self, client, refresh_token: str) -> RefreshToken | None:
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(self, client, refresh_token: RefreshToken, scopes) -> OAuthToken:
        self.refreshes += 1
        return self._issue(refresh_token.client_id)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def revoke_token(self, token) -> None:
        self.access.pop(token.token, None)

    def _issue(self, client: str) -> OAuthToken:
        access, refresh = f"access-{secrets.token_hex(16)}", f"refresh-{secrets.token_hex(16)}"
        self.access[access] = AccessToken(token=access, client_id=client, scopes=[])
        self.refresh[refresh] = RefreshToken(token=refresh, client_id=client, scopes=[])
        return OAuthToken(access_token=access, refresh_token=refresh, expires_in=3600)


@dataclass
class Remote:
    url: str
    port: int
    requests: list[dict[str, str]] = field(default_factory=list)
    """The headers of each request."""
    authority: Authority | None = None


def _tools(server: MCPServer) -> None:
    @server.tool()
    def echo(text: str) -> str:
        return text

    @server.tool()
    def weather(city: str) -> Weather:
        return Weather(city=city, wind=None)

    @server.tool()
    async def wait(seconds: float, context: Context) -> str:
        await context.report_progress(1, 2, "half")
        await asyncio.sleep(seconds)
        await context.report_progress(2, 2, "done")
        return "waited"

    @server.tool()
    def strange() -> str:
        raise MCPError(-32050, "it is a strange day")

    @server.tool()
    def fail() -> str:
        raise ValueError("no such city")


@contextlib.contextmanager
def remote_server(
    transport: str = "streamable-http", *, key: str = "", oauth: bool = False, port: int = 0
) -> Iterator[Remote]:
    """A running server. `key` is wanted in the header X-Key; with `oauth` one has to sign in."""
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", port))
    port = listening.getsockname()[1]
    base = f"http://127.0.0.1:{port}"
    remote = Remote(f"{base}/{'sse' if transport == 'sse' else 'mcp'}", port)
    more: dict[str, Any] = {}
    if oauth:
        remote.authority = Authority()
        more["auth_server_provider"] = remote.authority
        more["auth"] = AuthSettings(
            issuer_url=AnyHttpUrl(base),
            resource_server_url=AnyHttpUrl(remote.url),
            validate_token_resource=False,
            client_registration_options=ClientRegistrationOptions(enabled=True),
        )
    server = MCPServer("remote", version="4.5.6", instructions="From afar.", **more)
    _tools(server)
    app = server.sse_app() if transport == "sse" else server.streamable_http_app()

    async def guarded(scope, receive, send) -> None:
        if scope["type"] == "http":
            headers = {name.decode(): value.decode() for name, value in scope["headers"]}
            remote.requests.append(headers)
            if key and headers.get("x-key") != key:
                await send({"type": "http.response.start", "status": 401, "headers": []})
                await send({"type": "http.response.body", "body": f"not with {headers.get('x-key')}".encode()})
                return
        await app(scope, receive, send)

    config = uvicorn.Config(guarded, log_level="critical", timeout_graceful_shutdown=1, ws="none")
    running = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(running.serve([listening])), daemon=True)
    thread.start()
    try:
        while not running.started:
            threading.Event().wait(0.01)
        yield remote
    finally:
        running.should_exit = running.force_exit = True
        thread.join(10)
        listening.close()


@contextlib.contextmanager
def remote_process(transport: str, port: int = 0) -> Iterator[str]:
    """The same in a process of its own, which is killed; its address."""
    command = [sys.executable, __file__, transport, str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        try:
            yield running.stdout.readline().strip()
        finally:
            running.kill()


if __name__ == "__main__":
    with remote_server(sys.argv[1], port=int(sys.argv[2])) as alone:
        print(alone.url, flush=True)
        threading.Event().wait()
