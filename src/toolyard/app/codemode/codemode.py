"""Code mode of one yard: what is known of its tools, and from the first call on the connections and the broker.

Making it costs nothing. A search opens catalog and index; the first sandbox brings a loop's thread and the broker's
socket; a call starts the one server that is called. `CodeMode` owns all of it until `close()`.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import posixpath
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from toolyard.app.codemode.questions import Questions
from toolyard.codemode.folder import OURS, SERVERS, TOOLS
from toolyard.core.calls import Call
from toolyard.core.closing import Closing
from toolyard.core.errors import SystemFault
from toolyard.core.paths import is_beneath
from toolyard.core.upstream import ToolAnswer, ToolSchema
from toolyard.fs.roots import Root

if TYPE_CHECKING:
    from toolyard.app.codemode.connected import Connected
    from toolyard.app.codemode.server_changes import Choices, ServerChanges
    from toolyard.app.codemode.upstream import UpstreamCall
    from toolyard.app.dispatch import Dispatch
    from toolyard.app.recording import EventLog
    from toolyard.app.skills.counting import UseCounter
    from toolyard.app.skills.shelf import Shelf
    from toolyard.codemode.catalog import Catalog
    from toolyard.codemode.custom import CustomTools
    from toolyard.codemode.search import Hit, ToolIndex
    from toolyard.config.authorization import Authorization
    from toolyard.config.models import Config
    from toolyard.config.server_registry import ResolvedServers
    from toolyard.config.settings import Settings
    from toolyard.fs.mounts import Mounts
    from toolyard.policy.policy import Policy
    from toolyard.servers import SharedServers
    from toolyard.workspace.skills.checking import Checks

_INDEX_NAME = "tools.sqlite"
_LOOKED_AT = 500  # hits, where only those of some folders are wanted


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What code mode is given by the yard it belongs to."""

    config: Config
    settings: Settings
    policy: Policy
    audit: EventLog
    mounts: Mounts
    home: str
    """The folder that holds `servers/`, `tools/` and `skills/`: the workspace, or one that several agents share."""
    state: str
    """The state folder that belongs to `home`."""
    agent: str
    agent_id: str | None
    """Which agent of the configuration was named, if one was."""
    on_connection: Callable[[str, int, bool], None]
    """Told of every host that something inside wanted to reach."""
    on_authorize: Callable[[str, str], None] | None = None
    """Shows the user the address to sign in at for a server."""
    on_called: Callable[[str, ToolSchema, Mapping[str, Any], bool], None] = lambda _name, _schema, _given, _is_ok: (
        None
    )
    """Told of each call of a tool of somebody else's."""
    own: Callable[[], Dispatch] | None = None
    """Makes the dispatch of our own file tools, for code to call."""
    attached: tuple[str, ...] = ()
    """Folders of skills elsewhere."""
    servers: SharedServers | None = None
    """Servers that agents share. Without them, code mode has its own."""
    checks: Callable[[threading.Event], Checks] | None = None
    """What a skill has to pass before it is kept. They stop when the event is set."""


class CodeMode(Closing):
    """Used from any thread."""

    def __init__(self, around: Surroundings) -> None:
        self.around = around
        self.questions = Questions()
        self._lock = threading.RLock()
        self._catalog: Catalog | None = None
        self._index: ToolIndex | None = None
        self._connected: Connected | None = None
        self.choices: Choices = around.config.toolyard.in_context_tools
        self._generation = 0
        self._is_closed = False
        self._has_own_files = False

    def close(self) -> None:
        if self._connected is not None:
            self._connected.write_down()
        with self._lock:
            self._is_closed = True
            parts = (self._catalog, self._index, self._connected)
            self._catalog = self._index = self._connected = None
        with contextlib.ExitStack() as each:  # the last first: calls under way still look things up
            if "root" in self.__dict__ and self.root is not self.around.mounts.workspace:
                each.callback(self.root.close)
            if "skill_uses" in self.__dict__:
                each.callback(self.skill_uses.close)
            for part in parts:
                if part is not None:
                    each.callback(part.close)

    def note_changes(self) -> None:
        """Let sync know now which servers said that their tools have changed."""
        if self._connected is not None:
            self._connected.write_stale()

    def refresh(self) -> int:
        """Take over what the configuration and the catalog say now; what it gives changes when they may have.

        Servers that were added or changed count once they are synced; those that were removed are no longer called.
        """
        with self._open():
            if self._changes.have_come():
                attachment = self._changes.attachment()
                if attachment is not None:
                    self.resolved, self.authorization = attachment.resolved, attachment.authorization
                    self.choices = attachment.choices
                    self._servers_by_code_name = self._code_names()
                    if self._connected is not None:
                        self._connected.attach()
                self._generation += 1
            return self._generation

    @cached_property
    def _changes(self) -> ServerChanges:
        from toolyard.app.codemode.server_changes import ServerChanges

        return ServerChanges(self)

    @property
    def catalog(self) -> Catalog:
        from toolyard.codemode.catalog import Catalog

        with self._open():
            self._catalog = self._catalog or Catalog.open(self.around.state)
            return self._catalog

    @property
    def index(self) -> ToolIndex:
        from toolyard.codemode.search import ToolIndex

        with self._open():
            self._index = self._index or ToolIndex.open(self.index_path, semantic=self.is_semantic)
            return self._index

    @property
    def index_path(self) -> str:
        return os.path.join(self.around.state, _INDEX_NAME)

    @property
    def is_semantic(self) -> bool:
        """Whether tools are to be found by meaning too, beside keywords."""
        return self.around.config.toolyard.search_tools.enable_semtools

    @property
    def connected(self) -> Connected:
        """The loop, the pool and the broker."""
        from toolyard.app.codemode.connected import Connected

        with self._open():
            self._connected = self._connected or Connected(self)
            return self._connected

    @contextlib.contextmanager
    def _open(self) -> Generator[None]:
        with self._lock:
            if self._is_closed:
                raise SystemFault("The workspace is closed.", hint="Open it again.")
            yield

    @cached_property
    def root(self) -> Root:
        """`home`, opened."""
        workspace = self.around.mounts.workspace
        return workspace if self.around.home == workspace.path else Root(self.around.home)

    @cached_property
    def shelf(self) -> Shelf:
        """The skills that the agent has."""
        from toolyard.app.skills.shelf import Shelf

        return Shelf(self.root, self.around.agent, self.around.attached)

    @cached_property
    def skill_uses(self) -> UseCounter:
        from toolyard.app.skills.counting import UseCounter

        return UseCounter(self.shelf, self.around.state)

    @property
    def sign_ins(self) -> str:
        """The folder where connections keep what the user signed in with."""
        return os.path.join(self.around.state, "sign-ins")

    @cached_property
    def resolved(self) -> ResolvedServers:
        """The servers that are configured, and what is wrong with others."""
        from toolyard.config.server_registry import resolve_servers

        return resolve_servers(self.around.config, self.around.settings)

    @property
    def trusted(self) -> frozenset[str]:
        """The servers whose tools may change without being accepted again (`pinned: false`)."""
        return frozenset(entry.name for entry in self.resolved.entries if not entry.pinned)

    @cached_property
    def custom(self) -> CustomTools:
        """The custom tools that are configured. Imports their modules."""
        from toolyard.app.codemode.custom_calls import AgentFiles
        from toolyard.codemode.custom import load_custom_tools

        around = self.around
        files = AgentFiles(around.mounts, around.policy, around.config.limits.to_limits())
        return load_custom_tools(around.config, around.settings, files, around.on_connection)

    @cached_property
    def custom_authorization(self) -> Authorization:
        from toolyard.config.authorization import Authorization

        return Authorization.for_custom_tools(self.around.config, self.around.agent_id)

    @cached_property
    def authorization(self) -> Authorization:
        from toolyard.config.authorization import Authorization

        return Authorization.for_agent(self.around.config, self.around.agent_id, self.resolved)

    def broker_folder(self) -> str:
        """The folder with the agent's socket in it, for a sandbox to show."""
        with self._open():
            # A root of ours shows them as files. Nothing is added to a user's own folder: code imports those that
            # come with the runtime.
            if not self._has_own_files and self.root is not self.around.mounts.workspace:
                from toolyard.app.codemode.own_tools import write_own_tools

                self._has_own_files = True
                with contextlib.suppress(SystemFault, OSError):  # a root that cannot be written works without them
                    write_own_tools(self.root, self.around.state)
        return self.connected.broker.folder

    @property
    def folders(self) -> Mapping[str, str]:
        """The folder below `servers/` of each server that is configured or known."""
        from toolyard.codemode.files import folder_names

        known = (server.name for server in self.catalog.servers() if server.asked)
        return folder_names((*(entry.name for entry in self.resolved.entries), *known))

    def server_called(self, name: str) -> str:
        """The server that code means by a name: one that has the name of our own tools is known by its folder."""
        return self._servers_by_code_name.get(name, name)

    @cached_property
    def _servers_by_code_name(self) -> Mapping[str, str]:
        return self._code_names()

    def _code_names(self) -> Mapping[str, str]:
        from toolyard.codemode.files import code_name

        return {code_name(server, folder): server for server, folder in self.folders.items()}

    def call(self, call: UpstreamCall) -> ToolAnswer:
        """Call a tool from any thread but the loop's own."""
        connected = self.connected
        way = connected.custom if call.is_custom else connected.upstream
        return connected.run(way.call(call))

    def call_own(self, call: UpstreamCall) -> ToolAnswer:
        """Call one of Toolyard's own file tools from any thread but the loop's own."""
        from toolyard.app.codemode.own_tools import call_own_tool

        connected = self.connected
        if connected.own is None:
            raise SystemFault("The file tools are not served here.", hint="Open the workspace as a whole.")
        return connected.loop.run(call_own_tool(connected.own, call))

    def call_now(
        self, server: str, tool: str, arguments: Mapping[str, Any], caller: Call, *, is_custom: bool = False
    ) -> ToolAnswer:
        """Call a tool for a client that has it in its own list."""
        from toolyard.app.codemode.upstream import UpstreamCall

        ask, surface, session = self.questions.ask, caller.surface, caller.session
        call = UpstreamCall(server, tool, arguments, caller.agent, surface, ask, session, is_custom=is_custom)
        return self.call(call)

    def find(self, query: str, top: int, paths: Sequence[str] = ()) -> list[Hit]:
        """The tools that fit best; of those whose file lies below one of `paths`, where any are given."""
        wanted = [_place(path) for path in paths]
        if not wanted:
            return self.index.search(query, top=top)
        servers = [name for name, folder in self._folders() if any(_overlap(folder, path) for path in wanted)]
        hits = self.index.search(query, top=_LOOKED_AT, servers=servers)
        fitting = (hit for hit in hits if any(is_beneath(_place(hit.path), path) for path in wanted))
        return list(itertools.islice(fitting, top))

    def _folders(self) -> Iterator[tuple[str, str]]:
        """The servers and groups that the index knows, and the place of each."""
        from toolyard.codemode.files import OWN_SERVER, code_name
        from toolyard.codemode.writing import CUSTOM

        yield OWN_SERVER, f"/{SERVERS}/{OWN_SERVER}"
        for server, folder in self.folders.items():
            yield code_name(server, folder), f"/{SERVERS}/{folder}"
        for group in self.custom.groups:
            yield f"{CUSTOM}{group}", f"/{TOOLS}/{group}"


def _place(path: str) -> str:
    """A path of the workspace, the same whether our folders were put aside or not."""
    clean = posixpath.normpath(path.strip("/")).removeprefix(f"{OURS}/")
    return "/" if clean == "." else f"/{clean}"


def _overlap(one: str, other: str) -> bool:
    return is_beneath(one, other) or is_beneath(other, one)
