"""A Yard is one workspace, opened: its roots, policy, audit log and dispatch, composed from settings and config.

`Yard.open` acquires everything or nothing; `close()` gives it back. Surfaces hold a Yard and call `dispatch`.
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
from toolyard.app.agent_setup import apart, guarded, make_folders, make_links, standing_links, view_of
from toolyard.app.sandbox_preflight import runs_code
from toolyard.app.served_tools import ServedTools
from toolyard.app.yard_options import YardOptions
from toolyard.codemode.deps import CodeModeDeps
from toolyard.codemode.service import CodeMode
from toolyard.config.agents import agent_of
from toolyard.core.agent_folder_names import folder_name
from toolyard.core.closeable import Closing
from toolyard.core.errors import ConfigError, ToolyardError
from toolyard.core.events import Outcome
from toolyard.core.ids import new_id
from toolyard.core.paths import is_beneath, outermost
from toolyard.core.permission_modes import PermissionMode
from toolyard.dispatch.call_context import Resources
from toolyard.dispatch.dispatcher import Dispatch
from toolyard.dispatch.read_tracker import Seen
from toolyard.dispatch.tool import Tool
from toolyard.files.mounts import Mounts
from toolyard.policy.builder import hiding_where_open, keeping, policy_for
from toolyard.policy.policy import Policy
from toolyard.sandbox.manager import Sandboxes, chosen, own_environment
from toolyard.snapshots.service.auto_snapshots import Keeper, Place, Waiter
from toolyard.snapshots.service.context_paths import context_keepers, context_places
from toolyard.storage.audit_log import AuditLog
from toolyard.storage.audit_recorder import network_event, own_event
from toolyard.storage.private_folders import own_folders
from toolyard.storage.state_folder import ensure_state_dir
from toolyard.storage.trust import TrustStore
from toolyard.tools.resources import RESOURCE_TOOLS, SKILL_RESOURCE_TOOLS
from toolyard.workspace.agent_paths import CREATE_FOLDER, Home, home_of, outside_workspace
from toolyard.workspace.file_tool_detector import FilesystemToolDetector, OperationOutcome, Origin
from toolyard.workspace.layout_registry import note

if TYPE_CHECKING:
    from toolyard.app.fresh_start import Session
    from toolyard.app.webhook import Webhook
    from toolyard.core.upstream import ServerListing, ToolSchema
    from toolyard.sandbox.selection import Choice
    from toolyard.sharing.service import Sharing
    from toolyard.skills.validation import Checks

_AGENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")  # as in the configuration
_READING = frozenset({"Read", "read_file", "read_text_file"})


class Yard(Closing):
    """One open workspace."""

    def __init__(
        self,
        options: YardOptions,
        mounts: Mounts,
        policy: Policy,
        audit: AuditLog,
        state: str,
        *,
        home: Home,
        contexts: Sequence[Place] = (),
    ) -> None:
        self.options = options
        self.session = options.session or new_id()
        """The session of a client that names none: the one client of stdio, or the CLI of a run."""
        self.mounts = mounts
        self.policy = policy
        self.state = state
        self.home = home
        self.agent = home.agent
        self.limits = options.config.limits.to_limits()
        self._audit = audit
        self._is_warming = False
        self._session: Session | None = None
        execution = options.config.toolyard.code_execution
        self.codemode = CodeMode(self._surroundings())
        socket_folders = (*options.settings.temporary_folders, *options.settings.runtime_folders)
        self.sandboxes = Sandboxes(
            *(policy, execution, os.path.realpath(state), self._choose, self._connected),
            socket_folders=socket_folders,
            records_changes=self._shares_folders(contexts),
        )
        if options.has_code_mode:
            skills = (folder_name(self.agent), *home.attached)
            self.sandboxes.attach(self.codemode.broker_folder, self.agent, home.root, skills)
        self.detector = FilesystemToolDetector()
        self.activity = Activity(self.detector, self.sandboxes.shells, self.agent)
        self._webhook = self._opened_webhook()
        self.snapshots = Keeper(
            Place(home.workspace, home.snapshots, self.agent, self._own_links, authors=home.authors),
            *(options.config.snapshots, self._told),
        )
        self.contexts = context_keepers(contexts, options.config.snapshots, self._told)
        self.sharing = self._sharing()
        self._resources = Resources(
            *(mounts, policy, self.limits, Seen(), self.sandboxes, self.codemode),
            *(self.snapshots, self.detector, home, self.sharing, self.contexts),
        )
        with contextlib.ExitStack() as undo:  # a choice of tools that cannot be served leaves nothing open
            for part in (self.sharing, self.snapshots, *self.contexts, self.codemode, self.sandboxes):
                if part is not None:
                    undo.callback(part.close)
            self.served = ServedTools(options, self.codemode)
            served = self.served.tools()
            undo.pop_all()
        self.dispatch = Dispatch(served, self._hidden(served), self._resources, audit)

    @classmethod
    def open(cls, options: YardOptions) -> Self:
        workspace = os.path.abspath(options.workspace)
        real = os.path.realpath(workspace)
        home = home_of(options.config, real, options.agent, options.settings, options.state_home or "")
        make_folders(home)
        if not os.path.isdir(workspace):
            raise _no_folder(workspace)
        if options.agent is not None and not _AGENT.fullmatch(options.agent):
            raise ConfigError(
                f"{options.agent!r} cannot be an agent's name: it is part of paths.",
                hint="Use letters, digits, dots, dashes and underscores.",
            )
        state = outside_workspace(home.log, real)
        policy = policy_for(options.config, options.settings, real, options.mode, options.agent)
        everyones = _state_of_all(options.settings.state_home, real)
        roots = (real, *policy.extra_roots, *(each.path for each in policy.context))
        if any(is_beneath(everyones, root) for root in roots):
            # A folder that is missing could be made by a command, which a mount protects from.
            ensure_state_dir(everyones)
        # In a layout the root has a state folder of its own, and the snapshots may lie anywhere.
        contexts = context_places(policy, options.settings, options.state_home or "", home.agent)
        kept = (state, home.state, home.snapshots, everyones, *(place.folder for place in contexts))
        for own in outermost(map(os.path.realpath, kept)):
            policy = keeping(policy, own)
        if (environment := own_environment(real)) is not None:
            policy = keeping(policy, environment)
        code_mode = options.has_code_mode
        policy = hiding_where_open(guarded(home, policy, code_mode=code_mode), own_folders())
        links = view_of(home).links
        with contextlib.ExitStack() as undo:
            session = _begun(options, home, ensure_state_dir(state))
            if session is not None:
                undo.callback(session.close)
            if code_mode or home.is_own_folder:
                make_links(home, links)
            note(home, options.config.source or "")
            others = [context.path for context in policy.context] + (
                list(policy.extra_roots) if policy.mode is PermissionMode.MODERATE else []
            )
            names = {path: target for at in {workspace, real} for path, target in standing_links(at, links).items()}
            mounts = Mounts(workspace, others, names=names, limits=options.config.limits.to_limits())
            undo.callback(mounts.close)
            audit = AuditLog.open(state)
            undo.callback(audit.close)
            if home.is_elsewhere:
                ensure_state_dir(outside_workspace(home.state, home.root))
            yard = cls(options, mounts, policy, audit, state, home=home, contexts=contexts)
            yard._session = session
            undo.pop_all()
        return yard

    def _surroundings(self) -> CodeModeDeps:
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
            on_connection=self._connected,
            own_listing=_own_listing,
            on_authorize=options.on_authorize,
            servers=options.servers,
            attached=home.attached,
            checks=self.skill_checks,
            on_called=self._called_upstream,
            own=self._own_dispatch if self.options.offering is None else None,
        )

    def close(self) -> None:
        with contextlib.ExitStack() as each:  # the last first, each whatever became of the others
            if self._session is not None:
                each.callback(self._session.close)
            each.callback(self.mounts.close)
            each.callback(self._audit.close)
            if self._webhook is not None:
                each.callback(self._webhook.close)
            if self.sharing is not None:
                each.callback(self.sharing.close)
            for keeper in (self.snapshots, *self.contexts):
                each.callback(keeper.close)
            each.callback(self.codemode.close)
            each.callback(self.sandboxes.close)
            if self.options.offering is not None:
                each.callback(self.options.offering.close)
            each.callback(self.dispatch.close)

    def _shares_folders(self, contexts: Sequence[Place]) -> bool:
        """Whether other agents may change the same folders, so that commands' changes have to be recorded.

        Recording slows down commands that write thousands of files. So a single configured agent goes without it,
        until another one has worked in one of its folders.
        """
        from toolyard.snapshots.service.change_authors import (
            has_recorded_others,  # most agents have a folder of their own
        )

        folders = [(self.home.authors, self.home.workspace), *((place.authors, place.root) for place in contexts)]
        shared = [(record, root) for record, root in folders if record]
        if len(self.options.config.agents) > 1:
            return bool(shared)
        return any(has_recorded_others(record, root, self.agent) for record, root in shared)

    def skill_checks(self, stop: threading.Event | None = None, agent: str = "") -> Checks:
        """What a skill of an agent (this one, where none is named) has to pass, with the sandbox to try it in."""
        from toolyard.skills.example_runner import checks_in  # most sessions keep none

        return checks_in(self.sandboxes, self.codemode.shelf, stop, agent=agent)

    def warm_up(self) -> None:
        """Start the sandbox ahead of the first run, once, in a thread; where that fails the first run says why."""

        def start() -> None:
            with contextlib.suppress(ToolyardError):
                self.sandboxes.ready()

        offering = self.options.offering
        needs_walls = runs_code(self.dispatch.tools.values())
        is_wanted = offering is not None or (needs_walls and self.options.config.toolyard.code_execution.enabled)
        if is_wanted and not self._is_warming:
            self._is_warming = True
            work = start if offering is None else offering.warm_up
            threading.Thread(target=work, name="toolyard-warm-up", daemon=True).start()

    def _hidden(self, served: Mapping[str, Tool[Any]]) -> Mapping[str, Tool[Any]]:
        """What answers for resources. Who is not served the reading tools does not get the files that way either."""
        if self.options.offering is not None:
            return {**SKILL_RESOURCE_TOOLS, **self.options.offering.resources}
        return RESOURCE_TOOLS if _READING & served.keys() else SKILL_RESOURCE_TOOLS

    def calling(self, name: str, schema: ToolSchema, waiter: Waiter) -> None:
        """Before a tool of somebody else's is called past the dispatch: if it changes files, keep what is there."""
        if self.detector.learn(name, schema.input_schema, schema.annotations):
            for keeper in (self.snapshots, *self.contexts):
                keeper.before_change(waiter)

    def _called_upstream(self, name: str, schema: ToolSchema, arguments: Mapping[str, Any], is_ok: bool) -> None:
        """On the servers' loop, after each call of a tool of somebody else's: it may have changed files."""
        if self.detector.learn(name, schema.input_schema, schema.annotations):
            for keeper in (self.snapshots, *self.contexts):
                keeper.changed(name)
        outcome = OperationOutcome.OK if is_ok else OperationOutcome.FAILED
        origin = Origin(self.agent, self.session)
        self.detector.notify_filesystem_operation(
            *(name, arguments), outcome=outcome, snapshot=self.snapshots.newest, origin=origin
        )

    def _own_dispatch(self) -> Dispatch:
        """Runs our file tools for code. News of other agents are for the model, not for its code."""
        from toolyard.app.own_tool_files import own_tools

        tools = own_tools(agent_of(self.options.config, self.options.agent))
        return Dispatch(tools, {}, replace(self._resources, sharing=None), self._audit)

    def _sharing(self) -> Sharing | None:
        """What this agent shares with others; None where there is nobody else."""
        if not self.home.is_member or not self.home.peers:
            return None
        from toolyard.sharing.service import sharing_for

        sharing = sharing_for(self.home, self.options.config, self.options.settings, self._told)
        self.snapshots.on_taken(sharing.taken)
        return sharing

    def _own_links(self) -> list[str]:
        """What lies in the agent's folder and is no part of its work."""
        return apart(self.home)

    def _opened_webhook(self) -> Webhook | None:
        section = self.options.config.toolyard.webhook
        if section is None:
            return None
        from toolyard.app.webhook import Webhook  # few configurations have one

        webhook = Webhook(section, self._webhook_failed)
        self.activity.listen(webhook.hear)
        return webhook

    def _webhook_failed(self, text: str) -> None:
        """In its thread."""
        with contextlib.suppress(ToolyardError):
            self.record("webhook", text, Outcome.FAILED)

    def _told(self, text: str) -> None:
        """What became of snapshots that nobody asked for: an event of its own. A log that is full stops no thread."""
        with contextlib.suppress(ToolyardError):
            self.record("snapshots", text, Outcome.FAILED)

    def record(self, tool: str, what: str, outcome: Outcome) -> None:
        """An event of something that was no call: what Toolyard did by itself, or the user by command."""
        self._audit.append(own_event(self.agent, tool, self.home.workspace, what, outcome))

    def _choose(self) -> Choice:
        return chosen(self.options.config.toolyard.code_execution, self.options.settings, self.policy.mode)

    def _connected(self, host: str, port: int, allowed: bool) -> None:
        """Code inside the sandbox wanted to reach a host: an event of its own."""
        if not allowed:
            self.sandboxes.refused(f"{host}:{port}")
        self._audit.append(network_event(self.agent, f"{host}:{port}", is_allowed=allowed))


def _no_folder(workspace: str) -> ConfigError:
    if os.path.exists(workspace):
        return ConfigError(f"the workspace {workspace} is a file, not a folder.", hint="Name the folder it lies in.")
    return ConfigError(f"the workspace {workspace} is not a folder.", hint=CREATE_FOLDER)


def _state_of_all(state_home: str, workspace: str) -> str:
    """The state folder of all workspaces: their logs, their snapshots, the record of what is trusted.

    Where the workspace itself lies in there, that record alone.
    """
    everything = os.path.realpath(state_home)
    return os.path.realpath(TrustStore(state_home).folder) if is_beneath(workspace, everything) else everything


def _begun(options: YardOptions, home: Home, state: str) -> Session | None:
    if not options.begins_session or not any(agent.backend.fresh for agent in options.config.agents):
        return None
    from toolyard.app.fresh_start import begin  # few agents want it

    return begin(home, options.config, options.settings, state, options.tell or _untold)


def _own_listing() -> ServerListing:
    from toolyard.app.own_tool_files import own_listing  # few sessions write tool files

    return own_listing()


def _untold(_: str) -> None:
    """Nobody listens."""
