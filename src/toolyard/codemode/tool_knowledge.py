"""Knowledge of the tools for code mode: catalog, search index, configured servers, custom tools, skills.

Creating it costs nothing; catalog and index are opened on first use. Nothing here connects to a server.
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

from toolyard.codemode.approval_router import ApprovalRouter
from toolyard.codemode.generated_folder import FALLBACK_FOLDER, SERVERS, TOOLS
from toolyard.core.closeable import Closeable
from toolyard.core.errors import SystemFault
from toolyard.core.paths import is_beneath
from toolyard.files.roots import Root

if TYPE_CHECKING:
    from toolyard.codemode.catalog import Catalog
    from toolyard.codemode.custom import CustomTools
    from toolyard.codemode.deps import CodeModeDeps
    from toolyard.codemode.search import Hit, ToolIndex
    from toolyard.codemode.server_changes import InContextChoices, ServerChanges
    from toolyard.config.authorization import Authorization
    from toolyard.config.server_registry import ResolvedServers
    from toolyard.skills.library import SkillLibrary
    from toolyard.skills.usage_counter import SkillUsageCounter

_INDEX_NAME = "tools.sqlite"
_MAX_CANDIDATES = 500  # hits to filter if only some folders are searched


class ToolKnowledge(Closeable):
    """Thread-safe."""

    def __init__(self, deps: CodeModeDeps) -> None:
        self.deps = deps
        self.approvals = ApprovalRouter()
        self._lock = threading.RLock()
        self._catalog: Catalog | None = None
        self._index: ToolIndex | None = None
        self.in_context_choices: InContextChoices = deps.config.toolyard.in_context_tools
        self._generation = 0
        self._is_closed = False

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            parts = (self._catalog, self._index)
            self._catalog = self._index = None
        with contextlib.ExitStack() as stack:
            if "root" in self.__dict__ and self.root is not self.deps.mounts.workspace:
                stack.callback(self.root.close)
            if "skill_uses" in self.__dict__:
                stack.callback(self.skill_uses.close)
            for part in parts:
                if part is not None:
                    stack.callback(part.close)

    def refresh(self) -> int:
        """Applies changes of the configuration and the catalog. The returned number changes when they may have
        changed.

        Added or changed servers take effect once they are synced; removed ones are no longer called.
        """
        from toolyard.codemode.server_changes import Attachment

        with self._while_open():
            if self._changes.have_changed():
                current = Attachment(self.resolved_servers, self.authorization, self.in_context_choices)
                attachment = self._changes.next_attachment(current, self.catalog)
                if attachment is not None:
                    self.resolved_servers, self.authorization = attachment.resolved, attachment.authorization
                    self.in_context_choices = attachment.choices
                    self._servers_by_code_name = self._code_names()
                    self._on_attachment_changed()
                self._generation += 1
            return self._generation

    def _on_attachment_changed(self) -> None:
        """Called, with the lock held, when the configured servers have changed."""

    @cached_property
    def _changes(self) -> ServerChanges:
        from toolyard.codemode.server_changes import ServerChanges

        return ServerChanges(self.deps)

    @property
    def catalog(self) -> Catalog:
        from toolyard.codemode.catalog import Catalog

        with self._while_open():
            self._catalog = self._catalog or Catalog.open(self.deps.state)
            return self._catalog

    @property
    def index(self) -> ToolIndex:
        from toolyard.codemode.search import ToolIndex

        with self._while_open():
            self._index = self._index or ToolIndex.open(self.index_path, semantic=self.is_semantic)
            return self._index

    @property
    def index_path(self) -> str:
        return os.path.join(self.deps.state, _INDEX_NAME)

    @property
    def is_semantic(self) -> bool:
        """Whether tools are also searched by meaning."""
        return self.deps.config.toolyard.search_tools.enable_semtools

    @contextlib.contextmanager
    def _while_open(self) -> Generator[None]:
        with self._lock:
            if self._is_closed:
                raise SystemFault("The workspace is closed.", hint="Open it again.")
            yield

    @cached_property
    def root(self) -> Root:
        """The opened `home`."""
        workspace = self.deps.mounts.workspace
        return workspace if self.deps.home == workspace.path else Root(self.deps.home)

    @cached_property
    def skill_library(self) -> SkillLibrary:
        """The skills of the agent."""
        from toolyard.skills.library import SkillLibrary

        return SkillLibrary(self.root, self.deps.agent, self.deps.attached_skills)

    @cached_property
    def skill_uses(self) -> SkillUsageCounter:
        from toolyard.skills.usage_counter import SkillUsageCounter

        return SkillUsageCounter(self.skill_library, self.deps.state)

    @property
    def sign_in_folder(self) -> str:
        """The folder with the stored sign-ins of servers."""
        return os.path.join(self.deps.state, "sign-ins")

    @cached_property
    def resolved_servers(self) -> ResolvedServers:
        """The configured servers, and the errors of others."""
        from toolyard.config.server_registry import resolve_servers

        return resolve_servers(self.deps.config, self.deps.settings)

    @property
    def trusted_servers(self) -> frozenset[str]:
        """The servers whose tools may change without being accepted again (`pinned: false`)."""
        return frozenset(entry.name for entry in self.resolved_servers.entries if not entry.pinned)

    @cached_property
    def custom(self) -> CustomTools:
        """The configured custom tools. Imports their modules."""
        from toolyard.codemode.custom import load_custom_tools
        from toolyard.codemode.custom.caller import PolicyCheckedFiles

        deps = self.deps
        files = PolicyCheckedFiles(deps.mounts, deps.policy, deps.config.limits.to_limits())
        return load_custom_tools(deps.config, deps.settings, files, deps.on_connection)

    @cached_property
    def custom_authorization(self) -> Authorization:
        from toolyard.config.authorization import Authorization

        return Authorization.for_custom_tools(self.deps.config, self.deps.agent_id)

    @cached_property
    def authorization(self) -> Authorization:
        from toolyard.config.authorization import Authorization

        return Authorization.for_agent(self.deps.config, self.deps.agent_id, self.resolved_servers)

    @property
    def server_folders(self) -> Mapping[str, str]:
        """The folder below `servers/` of each configured or known server."""
        from toolyard.codemode.files import folder_names

        known = (server.name for server in self.catalog.servers() if server.asked_at)
        return folder_names((*(entry.name for entry in self.resolved_servers.entries), *known))

    def server_for_code_name(self, name: str) -> str:
        """Returns the server that code means by a name. One named like our own tools is known by its folder."""
        return self._servers_by_code_name.get(name, name)

    @cached_property
    def _servers_by_code_name(self) -> Mapping[str, str]:
        return self._code_names()

    def _code_names(self) -> Mapping[str, str]:
        from toolyard.codemode.files import code_name

        return {code_name(server, folder): server for server, folder in self.server_folders.items()}

    def find_tools(self, query: str, top: int, paths: Sequence[str] = ()) -> list[Hit]:
        """Returns the best tools for a query, optionally only those whose file lies below one of `paths`."""
        wanted = [_workspace_path(path) for path in paths]
        if not wanted:
            return self.index.search(query, top=top)
        servers = [
            name for name, folder in self._indexed_folders() if any(_paths_overlap(folder, path) for path in wanted)
        ]
        hits = self.index.search(query, top=_MAX_CANDIDATES, servers=servers)
        fitting = (hit for hit in hits if any(is_beneath(_workspace_path(hit.path), path) for path in wanted))
        return list(itertools.islice(fitting, top))

    def _indexed_folders(self) -> Iterator[tuple[str, str]]:
        """Yields the indexed servers and groups, and the folder of each."""
        from toolyard.codemode.file_writer import CUSTOM_PREFIX
        from toolyard.codemode.files import OWN_SERVER, code_name

        yield OWN_SERVER, f"/{SERVERS}/{OWN_SERVER}"
        for server, folder in self.server_folders.items():
            yield code_name(server, folder), f"/{SERVERS}/{folder}"
        for group in self.custom.groups:
            yield f"{CUSTOM_PREFIX}{group}", f"/{TOOLS}/{group}"


def _workspace_path(path: str) -> str:
    """Returns a workspace path that is the same with or without the fallback folder."""
    clean = posixpath.normpath(path.strip("/")).removeprefix(f"{FALLBACK_FOLDER}/")
    return "/" if clean == "." else f"/{clean}"


def _paths_overlap(one: str, other: str) -> bool:
    return is_beneath(one, other) or is_beneath(other, one)
