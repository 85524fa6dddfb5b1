"""Notifies clients of changes.

With a handshake protocol each client is notified on its connection, with 2026-07-28 on the streams it opened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from mcp_types import (
    EmptyResult,
    SubscribeRequestParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    UnsubscribeRequestParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolyard.core.errors import ToolyardError
from toolyard.tools.resources import path_from_uri
from toolyard.transports.mcp.publish_watch import ChangePollers, PeerPublication

_MAX_CLIENTS = 256
_MAX_SUBSCRIPTIONS = 1_000

Context = ServerRequestContext[Any, Any]


class NotifyingServer(Server[Any]):
    """The SDK's server, which announces its notifications in the handshake."""

    default_notifications = NotificationOptions()

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        return super().create_initialization_options(
            notification_options or self.default_notifications, experimental_capabilities, extensions
        )


@dataclass(slots=True)
class _Client:
    session: ServerSession
    uris: set[str] = field(default_factory=set[str])


class ChangeNotifier:
    """Notifies the clients of one server."""

    def __init__(
        self, pollers: ChangePollers, session_of: Callable[[Context], str], clean: Callable[[str], str]
    ) -> None:
        """`session_of` names the connection of a request; `clean` returns the real path of a spelled one."""
        self._session_of = session_of
        self._clean = clean
        self._pollers = pollers
        self._clients: dict[str, _Client] = {}
        self._bus = InMemorySubscriptionBus()
        self._listen_handler = ListenHandler(self._bus)
        self._listened_uris: Counter[str] = Counter()
        if pollers.published is not None:
            pollers.published.add_listener(self._notify_published)
        if pollers.tools is not None:
            pollers.tools.add_listener(self._notify_tools_changed)

    def note_client(self, context: Context) -> None:
        """Registers the client of a request. Clients of a handshake protocol are notified without subscribing."""
        self._pollers.start()
        if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return
        name = self._session_of(context)
        if name not in self._clients:
            if len(self._clients) >= _MAX_CLIENTS:
                del self._clients[next(iter(self._clients))]
            self._clients[name] = _Client(context.session)

    def attach(self, server: NotifyingServer) -> None:
        """Registers the request handlers and the announced notifications."""
        published, tools = self._pollers.published is not None, self._pollers.tools is not None
        server.default_notifications = NotificationOptions(resources_changed=published, tools_changed=tools)
        if published:
            server.add_request_handler("resources/subscribe", SubscribeRequestParams, self.subscribe)
            server.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, self.unsubscribe)
        server.add_request_handler("subscriptions/listen", SubscriptionsListenRequestParams, self.listen)

    async def subscribe(self, context: Context, params: SubscribeRequestParams) -> EmptyResult:
        self.note_client(context)
        uris = self._clients[self._session_of(context)].uris
        if len(uris) < _MAX_SUBSCRIPTIONS:
            uris.add(str(params.uri))
        return EmptyResult()

    async def unsubscribe(self, context: Context, params: UnsubscribeRequestParams) -> EmptyResult:
        self.note_client(context)
        self._clients[self._session_of(context)].uris.discard(str(params.uri))
        return EmptyResult()

    async def listen(self, context: Context, params: SubscriptionsListenRequestParams) -> SubscriptionsListenResult:
        """Serves a stream of protocol 2026-07-28 for as long as the client keeps it open."""
        self.note_client(context)
        wanted = Counter(set(map(str, params.notifications.resource_subscriptions or ())))
        self._listened_uris += wanted
        try:
            return await self._listen_handler(context, params)
        finally:
            self._listened_uris -= wanted

    async def _notify_tools_changed(self, _: bool) -> None:
        await self._bus.publish(ToolsListChanged())
        for name, client in list(self._clients.items()):
            try:
                await client.session.send_tool_list_changed()
            except Exception:  # noqa: BLE001 - a closed connection may raise anything
                self._clients.pop(name, None)

    async def _notify_published(self, publications: list[PeerPublication]) -> None:
        await self._bus.publish(ResourcesListChanged())
        for uri in list(self._listened_uris):
            if self._is_affected(uri, publications):
                await self._bus.publish(ResourceUpdated(uri))
        for name, client in list(self._clients.items()):
            try:
                await client.session.send_resource_list_changed()
                for uri in sorted(client.uris):
                    if self._is_affected(uri, publications):
                        await client.session.send_resource_updated(uri)
            except Exception:  # noqa: BLE001 - a closed connection may raise anything
                self._clients.pop(name, None)

    def _is_affected(self, uri: str, publications: list[PeerPublication]) -> bool:
        try:
            path = self._clean(path_from_uri(uri))
        except ToolyardError:
            return False
        return any(one.affects(path) for one in publications)
