"""A Yard is an open workspace: its roots, policy, audit log and dispatcher, built from settings and configuration.

`Yard.open` acquires every resource or none; `close()` releases them. Transports hold a Yard and call `dispatch`.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from toolyard.app.activity import Activity
from toolyard.app.agent_setup import (
    excluded_from_snapshots,
    make_folders,
    make_links,
    valid_links,
    view_of,
    with_layout_rules,
)
from toolyard.app.sandbox_preflight import runs_code
from toolyard.app.served_tools import ServedTools
from toolyard.app.yard_options import YardOptions
from toolyard.codemode.deps import CodeModeDeps
from toolyard.codemode.service import CodeMode
from toolyard.config.agents import select_agent
from toolyard.core.agent_folder_names import folder_name
from toolyard.core.closeable import Closeable
from toolyard.core.errors import ConfigError, ToolyardError
from toolyard.core.events import CallOutcome, network_event, own_event
from toolyard.core.ids import new_id
from toolyard.core.paths import is_beneath, outermost_folders
from toolyard.core.permission_modes import PermissionMode
from toolyard.dispatch.dispatcher import CallDispatcher
from toolyard.dispatch.read_tracker import ReadTracker
from toolyard.dispatch.services import WorkspaceServices, refuse_sharing
from toolyard.dispatch.tool import Tool
from toolyard.files.mounts import Mounts
from toolyard.policy.builder import hide_accessible_folders, policy_for, with_protected_folder
from toolyard.policy.policy import Policy
from toolyard.sandbox.manager import SandboxManager, own_environment, select_sandbox
from toolyard.snapshots.service.auto_snapshots import AutoSnapshots, SnapshotLocation, WaitingCall
from toolyard.snapshots.service.context_paths import context_auto_snapshots, context_locations
from toolyard.storage.audit_log import AuditLog
from toolyard.storage.private_folders import own_folders
from toolyard.storage.state_folder import ensure_state_dir
from toolyard.storage.trust import TrustStore
from toolyard.tools.resources import RESOURCE_TOOLS, SKILL_RESOURCE_TOOLS
from toolyard.workspace.agent_paths import CREATE_FOLDER, AgentPaths, check_outside_workspace, resolve_agent_paths
from toolyard.workspace.file_tool_detector import FilesystemToolDetector
from toolyard.workspace.layout_registry import record_membership

if TYPE_CHECKING:
    from toolyard.app.fresh_start import FreshSession
    from toolyard.app.webhook import Webhook
    from toolyard.core.upstream import ServerListing, ToolSchema
    from toolyard.sandbox.selection import SandboxChoice
    from toolyard.sharing.service import SharingService
    from toolyard.skills.validation import SkillChecks

_AGENT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")  # as in the configuration
_READ_TOOLS = frozenset({"Read", "read_file", "read_text_file"})


class Yard(Closeable):
    """One open workspace."""

    def __init__(
        self,
        options: YardOptions,
        mounts: Mounts,
        policy: Policy,
        audit: AuditLog,
        state: str,
        *,
        home: AgentPaths,
        context_locations: Sequence[SnapshotLocation] = (),
    ) -> None:
        self.options = options
        self.session = options.session or new_id()
        """The session id of a client that sends none: the only client on stdio, or the CLI of a run."""
        self.mounts = mounts
        self.policy = policy
        self.state = state
        self.home = home
        self.agent = home.agent
        self.limits = options.config.limits.to_limits()
        self._audit = audit
        self._is_warming_up = False
        self._session: FreshSession | None = None
        execution = options.config.toolyard.code_execution
        self.detector = FilesystemToolDetector()
        folders = (home.workspace, home.snapshots_folder)
        location = SnapshotLocation(*folders, self.agent, self._excluded_paths, authors_folder=home.authors_record)
        self.snapshots = AutoSnapshots(location, options.config.snapshots, self._log_snapshot_failure)
        self.context_snapshots = context_auto_snapshots(
            context_locations, options.config.snapshots, self._log_snapshot_failure
        )
        self.codemode = CodeMode(self._codemode_deps())
        socket_folders = (*options.settings.temporary_folders, *options.settings.runtime_folders)
        self.sandboxes = SandboxManager(
            *(policy, execution, os.path.realpath(state), self._select_sandbox, self._log_connection),
            socket_folders=socket_folders,
            records_changes=self._shares_folders(context_locations),
        )
        if options.has_code_mode:
            skills = (folder_name(self.agent), *home.attached_skills)
            self.sandboxes.attach(self.codemode.broker_folder, self.agent, home.root, skills)
        self.activity = Activity(self.detector, self.sandboxes.background_commands, self.agent)
        self._webhook = self._open_webhook()
        self.sharing = self._open_sharing()
        self._services = self._build_services()
        # If the selected tools cannot be served, everything opened so far is closed.
        with contextlib.ExitStack() as undo:
            for part in (self.sharing, self.snapshots, *self.context_snapshots, self.codemode, self.sandboxes):
                if part is not None:
                    undo.callback(part.close)
            self.served = ServedTools(options, self.codemode)
            served = self.served.tools()
            undo.pop_all()
        self.dispatch = CallDispatcher(served, self._resource_tools(served), self._services, audit)

    @classmethod
    def open(cls, options: YardOptions) -> Self:
        """Opens a workspace. Raises ConfigError for a folder, agent name or selection of tools that cannot be
        used.
        """
        workspace = os.path.abspath(options.workspace)
        real = os.path.realpath(workspace)
        home = resolve_agent_paths(options.config, real, options.agent, options.settings, options.state_home or "")
        make_folders(home)
        if not os.path.isdir(workspace):
            raise _missing_folder_error(workspace)
        if options.agent is not None and not _AGENT_NAME.fullmatch(options.agent):
            raise ConfigError(
                f"{options.agent!r} cannot be an agent's name: agent names are used in paths.",
                hint="Use letters, digits, dots, dashes and underscores.",
            )
        state = check_outside_workspace(home.log_folder, real)
        policy = policy_for(options.config, options.settings, real, options.mode, options.agent)
        shared_state = _shared_state_folder(options.settings.state_home, real)
        roots = (real, *policy.extra_roots, *(each.path for each in policy.context))
        if any(is_beneath(shared_state, root) for root in roots):
            # A mount protects only an existing folder: a command could create a missing one.
            ensure_state_dir(shared_state)
        # In a layout the root has its own state folder, and the snapshots may be anywhere.
        contexts = context_locations(policy, options.settings, options.state_home or "", home.agent)
        protected = (
            state,
            home.state,
            home.snapshots_folder,
            shared_state,
            *(location.folder for location in contexts),
        )
        for folder in outermost_folders(map(os.path.realpath, protected)):
            policy = with_protected_folder(policy, folder)
        if (environment := own_environment(real)) is not None:
            policy = with_protected_folder(policy, environment)
        code_mode = options.has_code_mode
        policy = hide_accessible_folders(with_layout_rules(home, policy, code_mode=code_mode), own_folders())
        links = view_of(home).links
        with contextlib.ExitStack() as undo:
            session = _begin_session(options, home, ensure_state_dir(state))
            if session is not None:
                undo.callback(session.close)
            if code_mode or home.is_own_folder:
                make_links(home, links)
            record_membership(home, options.config.source or "")
            others = [context.path for context in policy.context] + (
                list(policy.extra_roots) if policy.mode is PermissionMode.MODERATE else []
            )
            names = {path: target for at in {workspace, real} for path, target in valid_links(at, links).items()}
            mounts = Mounts(workspace, others, aliases=names, limits=options.config.limits.to_limits())
            undo.callback(mounts.close)
            audit = AuditLog.open(state)
            undo.callback(audit.close)
            if home.has_separate_root:
                ensure_state_dir(check_outside_workspace(home.state, home.root))
            yard = cls(options, mounts, policy, audit, state, home=home, context_locations=contexts)
            yard._session = session
            undo.pop_all()
        return yard

    def _codemode_deps(self) -> CodeModeDeps:
        options, home = self.options, self.home
        return CodeModeDeps(
            config=options.config,
            settings=options.settings,
            policy=self.policy,
            audit=self._audit,
            mounts=self.mounts,
            home=home.root,
            state=home.state,
            agent=self.agent,
            agent_id=options.agent,
            on_connection=self._log_connection,
            list_own_tools=_own_listing,
            on_authorize=options.on_authorize,
            servers=options.servers,
            attached_skills=home.attached_skills,
            make_checks=self.skill_checks,
            detector=self.detector,
            snapshots=(self.snapshots, *self.context_snapshots),
            session=self.session,
            open_own_tools=self._own_dispatch if self.options.tool_provider is None else None,
        )

    def close(self) -> None:
        """Closes all parts in reverse order, each even if another one fails."""
        with contextlib.ExitStack() as stack:
            if self._session is not None:
                stack.callback(self._session.close)
            stack.callback(self.mounts.close)
            stack.callback(self._audit.close)
            if self._webhook is not None:
                stack.callback(self._webhook.close)
            if self.sharing is not None:
                stack.callback(self.sharing.close)
            for snapshots in (self.snapshots, *self.context_snapshots):
                stack.callback(snapshots.close)
            stack.callback(self.codemode.close)
            stack.callback(self.sandboxes.close)
            if self.options.tool_provider is not None:
                stack.callback(self.options.tool_provider.close)
            stack.callback(self.dispatch.close)

    def _shares_folders(self, context_locations: Sequence[SnapshotLocation]) -> bool:
        """Whether other agents may change the same folders, so that commands' changes have to be recorded.

        Recording slows down commands that write thousands of files. A single configured agent therefore goes without
        it until another agent has worked in one of its folders.
        """
        from toolyard.snapshots.service.change_authors import (
            has_recorded_others,  # most agents have a folder of their own
        )

        folders = [
            (self.home.authors_record, self.home.workspace),
            *((location.authors_folder, location.root) for location in context_locations),
        ]
        shared = [(record, root) for record, root in folders if record]
        if len(self.options.config.agents) > 1:
            return bool(shared)
        return any(has_recorded_others(record, root, self.agent) for record, root in shared)

    def skill_checks(self, stop: threading.Event | None = None, agent: str = "") -> SkillChecks:
        """Returns the checks that a skill of `agent` (default: this agent) must pass, with a sandbox to run its
        example.
        """
        from toolyard.skills.example_runner import sandboxed_checks  # most sessions save no skill

        return sandboxed_checks(self.sandboxes, self.codemode.skill_library, stop, agent=agent)

    def warm_up(self) -> None:
        """Starts the sandbox in a thread, once, before the first run. A failure is reported by the first run."""

        def start() -> None:
            with contextlib.suppress(ToolyardError):
                self.sandboxes.get_sandbox()

        offering = self.options.tool_provider
        needs_sandbox = runs_code(self.dispatch.tools.values())
        is_wanted = offering is not None or (needs_sandbox and self.options.config.toolyard.code_execution.enabled)
        if is_wanted and not self._is_warming_up:
            self._is_warming_up = True
            work = start if offering is None else offering.warm_up
            threading.Thread(target=work, name="toolyard-warm-up", daemon=True).start()

    def _resource_tools(self, served: Mapping[str, Tool[Any]]) -> Mapping[str, Tool[Any]]:
        """Returns the tools that answer resource requests. A client without read tools gets no file resources."""
        if self.options.tool_provider is not None:
            return {**SKILL_RESOURCE_TOOLS, **self.options.tool_provider.resources}
        return RESOURCE_TOOLS if _READ_TOOLS & served.keys() else SKILL_RESOURCE_TOOLS

    def before_upstream_call(self, name: str, schema: ToolSchema, waiter: WaitingCall) -> None:
        """Takes the snapshots due before an upstream tool that may change files is called outside the dispatcher."""
        if self.detector.learn(name, schema.input_schema, schema.annotations):
            for snapshots in (self.snapshots, *self.context_snapshots):
                snapshots.before_change(waiter)

    def _own_dispatch(self) -> CallDispatcher:
        """Returns a dispatcher that runs our file tools for code. Only models get news of other agents, not code."""
        from toolyard.app.own_tool_files import own_tools

        tools = own_tools(select_agent(self.options.config, self.options.agent))
        services = replace(self._services, get_sharing=refuse_sharing, new_peer_notices=list)
        return CallDispatcher(tools, {}, services, self._audit)

    def _build_services(self) -> WorkspaceServices:
        services = WorkspaceServices(
            *(self.mounts, self.policy, self.limits, ReadTracker(), self.sandboxes, self.codemode),
            *(self.snapshots, self.detector, self.home, self.context_snapshots),
        )
        sharing = self.sharing
        if sharing is None:
            return services
        return replace(services, get_sharing=lambda: sharing, new_peer_notices=sharing.notifications.new_lines)

    def _open_sharing(self) -> SharingService | None:
        """Returns what this agent shares with its peers; None without peers."""
        if not self.home.is_member or not self.home.peers:
            return None
        from toolyard.sharing.service import build_sharing

        sharing = build_sharing(self.home, self.options.config, self.options.settings, self._log_snapshot_failure)
        self.snapshots.on_snapshot(sharing.on_snapshot_taken)
        return sharing

    def _excluded_paths(self) -> list[str]:
        """Returns the paths in the agent's folder that are not part of its work."""
        return excluded_from_snapshots(self.home)

    def _open_webhook(self) -> Webhook | None:
        section = self.options.config.toolyard.webhook
        if section is None:
            return None
        from toolyard.app.webhook import Webhook  # few configurations have one

        webhook = Webhook(section, self._log_webhook_failure)
        self.activity.add_listener(webhook.enqueue)
        return webhook

    def _log_webhook_failure(self, text: str) -> None:
        """Records a delivery failure; called in the webhook's thread."""
        with contextlib.suppress(ToolyardError):
            self.record("webhook", text, CallOutcome.FAILED)

    def _log_snapshot_failure(self, text: str) -> None:
        """Records a failed automatic snapshot. A full audit log must not stop the calling thread."""
        with contextlib.suppress(ToolyardError):
            self.record("snapshots", text, CallOutcome.FAILED)

    def record(self, tool: str, what: str, outcome: CallOutcome) -> None:
        """Writes an audit event for something other than a tool call: an action of Toolyard or of the user."""
        self._audit.append(own_event(self.agent, tool, self.home.workspace, what, outcome))

    def _select_sandbox(self) -> SandboxChoice:
        return select_sandbox(self.options.config.toolyard.code_execution, self.options.settings, self.policy.mode)

    def _log_connection(self, host: str, port: int, allowed: bool) -> None:
        """Records that sandboxed code tried to reach a host."""
        if not allowed:
            self.sandboxes.record_refused_host(f"{host}:{port}")
        self._audit.append(network_event(self.agent, f"{host}:{port}", is_allowed=allowed))


def _missing_folder_error(workspace: str) -> ConfigError:
    if os.path.exists(workspace):
        return ConfigError(
            f"the workspace {workspace} is a file, not a folder.", hint="Name the folder that contains it."
        )
    return ConfigError(f"the workspace {workspace} is not a folder.", hint=CREATE_FOLDER)


def _shared_state_folder(state_home: str, workspace: str) -> str:
    """Returns the state folder of all workspaces: their logs, snapshots and trust records.

    If the workspace itself lies inside it, returns the folder of the trust records only.
    """
    everything = os.path.realpath(state_home)
    return os.path.realpath(TrustStore(state_home).folder) if is_beneath(workspace, everything) else everything


def _begin_session(options: YardOptions, home: AgentPaths, state: str) -> FreshSession | None:
    if not options.begins_session or not any(agent.backend.fresh for agent in options.config.agents):
        return None
    from toolyard.app.fresh_start import begin_fresh_session  # few agents want it

    return begin_fresh_session(home, options.config, options.settings, state, options.notify or _ignore_notice)


def _own_listing() -> ServerListing:
    from toolyard.app.own_tool_files import own_listing  # few sessions write tool files

    return own_listing()


def _ignore_notice(_: str) -> None:
    """Discards a notice."""
