"""What code mode knows of the tools: catalog, search index, configured servers, custom tools, skills.

Creating it costs nothing: a search opens catalog and index. Nothing here connects to a server.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import posixpath
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from toolyard.codemode.approval_router import Questions
from toolyard.codemode.generated_folder import OURS, SERVERS, TOOLS
from toolyard.core.closeable import Closing
from toolyard.core.errors import SystemFault
from toolyard.core.paths import is_beneath
from toolyard.files.roots import Root

if TYPE_CHECKING:
    from toolyard.codemode.catalog import Catalog
    from toolyard.codemode.custom import CustomTools
    from toolyard.codemode.deps import CodeModeDeps
    from toolyard.codemode.search import Hit, ToolIndex
    from toolyard.codemode.server_changes import Choices, ServerChanges
    from toolyard.config.authorization import Authorization
    from toolyard.config.server_registry import ResolvedServers
    from toolyard.skills.library import Shelf
    from toolyard.skills.usage_counter import UseCounter

_INDEX_NAME = "tools.sqlite"
_LOOKED_AT = 500  # hits, where only those of some folders are wanted


class ToolKnowledge(Closing):
    """Used from any thread."""

    def __init__(self, around: CodeModeDeps) -> None:
        self.around = around
        self.questions = Questions()
        self._lock = threading.RLock()
        self._catalog: Catalog | None = None
        self._index: ToolIndex | None = None
        self.choices: Choices = around.config.toolyard.in_context_tools
        self._generation = 0
        self._is_closed = False

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            parts = (self._catalog, self._index)
            self._catalog = self._index = None
        with contextlib.ExitStack() as each:
            if "root" in self.__dict__ and self.root is not self.around.mounts.workspace:
                each.callback(self.root.close)
            if "skill_uses" in self.__dict__:
                each.callback(self.skill_uses.close)
            for part in parts:
                if part is not None:
                    each.callback(part.close)

    def refresh(self) -> int:
        """Take over what the configuration and the catalog say now; what it gives changes when they may have.

        Servers that were added or changed count once they are synced; those that were removed are no longer called.
        """
        from toolyard.codemode.server_changes import Attachment

        with self._open():
            if self._changes.have_come():
                current = Attachment(self.resolved, self.authorization, self.choices)
                attachment = self._changes.attachment(current, self.catalog)
                if attachment is not None:
                    self.resolved, self.authorization = attachment.resolved, attachment.authorization
                    self.choices = attachment.choices
                    self._servers_by_code_name = self._code_names()
                    self._on_attachment_changed()
                self._generation += 1
            return self._generation

    def _on_attachment_changed(self) -> None:
        """Called, with the lock held, when the configured servers have changed."""

    @cached_property
    def _changes(self) -> ServerChanges:
        from toolyard.codemode.server_changes import ServerChanges

        return ServerChanges(self.around)

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
        from toolyard.skills.library import Shelf

        return Shelf(self.root, self.around.agent, self.around.attached)

    @cached_property
    def skill_uses(self) -> UseCounter:
        from toolyard.skills.usage_counter import UseCounter

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
        from toolyard.codemode.custom import load_custom_tools
        from toolyard.codemode.custom.caller import AgentFiles

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
        from toolyard.codemode.file_writer import CUSTOM
        from toolyard.codemode.files import OWN_SERVER, code_name

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
