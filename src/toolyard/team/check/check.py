"""`toolyard run --check`: reports what a run would do, without starting servers or calling models.

It changes nothing: it does not create folders. It starts one sandbox to probe the restrictions, and imports the
custom tools.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from toolyard.app.execution_mode import ToolInjection, injected_tools, tool_injection_for
from toolyard.app.tool_selection import OWN_GROUPS, OfflineToolSource
from toolyard.codemode.catalog import FILE_NAME, Catalog, KnownServer, KnownTool
from toolyard.codemode.custom import load_custom_tools
from toolyard.codemode.files import collision_notices, server_for_code_name
from toolyard.config.authorization import Authorization
from toolyard.config.server_registry import resolve_servers
from toolyard.config.settings import environment
from toolyard.core.errors import ConfigError, SecurityError, ToolyardError
from toolyard.core.permission_modes import PermissionMode
from toolyard.core.tokens import count_or_estimate_tokens
from toolyard.mcp_client.errors import without_server_name
from toolyard.policy.builder import policy_for
from toolyard.storage.state_folder import state_dir
from toolyard.team.check.parts import (
    ASKING_MODES,
    MODE_RIGHTS,
    check_folder_exists,
    describe_folder,
    describe_sandbox,
    model_and_access,
    server_start_problem,
    unpriced_model_notices,
)
from toolyard.team.check.report import AgentCheck, CheckReport, Finding, ServerCheck, ServerState
from toolyard.team.check.sandboxes import needs_sandbox, refusal_without_sandbox
from toolyard.team.paths import root_of, with_layout, workspace_of
from toolyard.team.prompts import PromptInputs, compose_prompt
from toolyard.team.worker_factory import agent_backend_kind
from toolyard.workspace.agent_paths import AgentPaths
from toolyard.workspace.layout import SHARED

if TYPE_CHECKING:
    from toolyard.codemode.custom import CustomTools
    from toolyard.config.models import Agent, Config, TeamLimits
    from toolyard.config.server_registry import ResolvedServers
    from toolyard.config.settings import Settings
    from toolyard.dispatch.tool import Tool

_MIN_SHARED = 2
_UNANSWERED_STATES = frozenset({ServerState.UNKNOWN, ServerState.FAILED})


def check_run(
    config: Config,
    settings: Settings,
    state_home: str | None = None,
    variables: Mapping[str, str] | None = None,
    limits: TeamLimits | None = None,
) -> CheckReport:
    """Reports what `toolyard run` would do with this configuration, given as the user wrote it.

    `limits` replaces the limits of the configuration.
    """
    limits = limits or config.orchestrator.limits
    report = CheckReport(
        config=config.source or "",
        execution_mode=config.toolyard.execution_mode,
        root=root_of(config),
        limits={name: value for name, value in limits.model_dump().items() if value is not None},
    )
    try:
        laid_out = with_layout(config)
    except ToolyardError as error:
        return replace(report, problems=(Finding(error.message, error.hint),))
    with _open_check(config, laid_out, settings, state_home, variables) as check:
        agents = tuple(check.check_agent(agent) for agent in laid_out.agents)
        check.check_team(agents)
        check.notices += [Finding(text) for text in unpriced_model_notices(config, settings, limits)]
        refused = tuple(check.without_commands)
        report = replace(report, agents=agents, without=check.unavailable_agents(), without_commands=refused)
        return replace(report, problems=_merge_duplicates(check.problems), notices=_merge_duplicates(check.notices))


def _merge_duplicates(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Merges equal findings; one that several agents share is about the whole run."""
    found: dict[tuple[str, str], Finding] = {}
    for finding in findings:
        key = finding.text, finding.hint
        found[key] = finding if key not in found else replace(finding, agent="")
    return tuple(found.values())


class _EmptyCatalog:
    """Stands in for the catalog of a root that has none yet."""

    def servers(self) -> Sequence[KnownServer]:
        return ()

    def tools(self, server: str) -> Iterable[KnownTool]:  # noqa: ARG002 - it knows no servers
        return ()


@contextlib.contextmanager
def _open_check(
    written: Config,
    config: Config,
    settings: Settings,
    state_home: str | None,
    variables: Mapping[str, str] | None,
) -> Generator[_RunCheck]:
    state = state_dir(state_home or settings.state_home, root_of(config))
    with contextlib.ExitStack() as each:
        is_there = os.path.exists(os.path.join(state, FILE_NAME))
        catalog = each.enter_context(Catalog.open(state)) if is_there else _EmptyCatalog()
        yield _RunCheck(
            written=written,
            config=config,
            settings=settings,
            state=state,
            variables=environment() if variables is None else variables,
            catalog=catalog,
            known={server.name: server for server in catalog.servers()},
            resolved=resolve_servers(config, settings),
            custom=load_custom_tools(config, settings),
        )


@dataclass(slots=True)
class _RunCheck:
    """One check of a configuration, with the findings collected so far."""

    written: Config
    config: Config
    """The configuration with the layout that a run uses."""
    settings: Settings
    state: str
    variables: Mapping[str, str]
    catalog: Catalog | _EmptyCatalog
    known: Mapping[str, KnownServer]
    resolved: ResolvedServers
    custom: CustomTools
    token_counts: dict[str, int] = field(default_factory=dict[str, int])
    """Token counts by tool text, cached: counting hundreds of servers takes seconds, and agents share most tools."""
    problems: list[Finding] = field(default_factory=list[Finding])
    unavailable: list[Finding] = field(default_factory=list[Finding])
    """Errors that keep single agents from starting."""
    notices: list[Finding] = field(default_factory=list[Finding])
    without_commands: list[str] = field(default_factory=list[str])

    def check_agent(self, agent: Agent) -> AgentCheck:
        home = self._agent_paths(agent)
        policy = policy_for(self.config, self.settings, home.workspace, agent=agent.id)
        result = AgentCheck(agent.id, mode=policy.mode.value, rights=MODE_RIGHTS[policy.mode])
        with self._collect_errors(agent):
            kind = agent_backend_kind(agent, self.config)
            result = replace(result, backend=kind.title, model=agent.backend.model or kind.default_model)
            model, access = model_and_access(agent.backend, kind, self.settings, self.variables)
            result = replace(result, model=model, access=access)
        try:
            injection = tool_injection_for(self.written, agent.id)
        except ToolyardError as error:
            self.problems.append(Finding(error.message, error.hint, agent.id))
            return result
        self.notices += [Finding(text) for text in injection.notices]
        if injection.has_files:
            sandbox = self._describe_sandbox(agent, policy.mode, injection)
            result = replace(result, workspace=home.workspace, walls=sandbox)
            with self._collect_errors(agent):
                result = replace(result, folder=describe_folder(home, self.config, agent, self.settings))
            self._note_mode(agent, policy.mode, injection)
        return self._with_context(result, agent, injection, home)

    @contextlib.contextmanager
    def _collect_errors(self, agent: Agent) -> Generator[None]:
        """Collects errors: a ConfigError stops the whole run, any other error only this agent."""
        try:
            yield
        except ToolyardError as error:
            found = self.problems if isinstance(error, ConfigError) else self.unavailable
            found.append(Finding(error.message, error.hint, agent.id))

    def unavailable_agents(self) -> tuple[str, ...]:
        """Returns the agents that cannot start. If none can, their errors become problems of the run."""
        missing = {finding.agent for finding in self.unavailable}
        ids = tuple(agent.id for agent in self.config.agents)
        if missing.issuperset(ids):
            self.problems += self.unavailable
            return ()
        for found in self.unavailable:
            self.notices.append(replace(found, text=f"{found.text} The run starts without agent {found.agent}."))
        return tuple(agent for agent in ids if agent in missing)

    def _agent_paths(self, agent: Agent) -> AgentPaths:
        config = self.config
        storage = config.orchestrator.snapshot_storage
        folder = os.path.realpath(workspace_of(config, agent))
        return AgentPaths(
            root=root_of(config),
            workspace=folder,
            agent=agent.id,
            state=self.state,
            log_folder=self.state,
            agents=tuple(each.id for each in config.agents),
            snapshots_override=os.path.realpath(os.path.join(config.base_folder(folder), storage)) if storage else "",
        )

    def _describe_sandbox(self, agent: Agent, mode: PermissionMode, injection: ToolInjection) -> str:
        if not needs_sandbox(agent, injection):
            return "not needed: it has no tool that runs commands or code"
        try:
            return describe_sandbox(self.config.toolyard.code_execution, self.settings, mode)
        except SecurityError as error:
            refusal = refusal_without_sandbox(self.config.toolyard, error)
            if refusal is not None:
                self.problems.append(replace(refusal, agent=agent.id))
            else:
                self.notices.append(Finding(error.message, error.hint, agent.id))
                self.without_commands.append(agent.id)
            return "not available: commands and code are refused"

    def _note_mode(self, agent: Agent, mode: PermissionMode, injection: ToolInjection) -> None:
        if mode in ASKING_MODES:
            text = f"permission mode {mode.value} asks you on the terminal; without a terminal it denies."
            self.notices.append(Finding(text, agent=agent.id))
        if mode is PermissionMode.PLAN and injection.files_first:
            self.notices.append(
                Finding(
                    "permission mode plan runs no code, so tool files can be read but not called.",
                    "Use another mode, or `execution_mode: context_based`.",
                    agent.id,
                )
            )

    def _with_context(
        self, result: AgentCheck, agent: Agent, injection: ToolInjection, home: AgentPaths
    ) -> AgentCheck:
        rights = Authorization.for_agent(self.config, agent.id, self.resolved)
        own = Authorization.for_custom_tools(self.config, agent.id)
        source = OfflineToolSource(self.resolved, self.catalog, self.custom, rights, own)
        servers = tuple(self._server_checks(rights))
        tools: dict[str, Tool[Any]] = {}
        unheard = {server.name for server in servers if server.state in _UNANSWERED_STATES}
        with self._collect_errors(agent):
            tools = injected_tools(injection, self._without_uncounted_groups(agent, unheard), agent.id, source)
        result = replace(
            result,
            servers=servers,
            tools=tuple(tools),
            tool_tokens=sum(map(self._tool_tokens, tools.values())),
            prompt_tokens=count_or_estimate_tokens(self._system_prompt(agent, injection, home, tools)),
        )
        if not tools and not injection.has_files and not any(each.state in _UNANSWERED_STATES for each in servers):
            text = f"agent {agent.id} has no tools: set `cwd` or `permission_mode` to give it files."
            self.notices.append(Finding(text, agent=agent.id))
        if not injection.files_first:
            return result
        # What `context_based` would put into the context.
        others = injected_tools(ToolInjection(files_first=False, has_files=False), self.config, agent.id, source)
        file_tools = [tool for name, tool in others.items() if name not in tools]
        return replace(result, file_tools=len(file_tools), file_tokens=sum(map(self._tool_tokens, file_tools)))

    def _without_uncounted_groups(self, agent: Agent, unanswered: Collection[str]) -> Config:
        """Returns the configuration without the `in_context_tools` groups that cannot be counted before a sync."""
        section = self.config.toolyard
        names = [entry.name for entry in self.resolved.entries]
        waiting = [group for group in section.in_context_tools if server_for_code_name(group, names) in unanswered]
        waiting = [group for group in waiting if group not in OWN_GROUPS]
        if not waiting:
            return self.config
        text = f"in_context_tools names tools of {', '.join(waiting)}, which cannot be counted before the first sync."
        self.notices.append(Finding(text, agent=agent.id))
        # An empty tuple means a group without tools; leaving out the group would select the essential tools.
        chosen = {group: () if group in waiting else tools for group, tools in section.in_context_tools.items()}
        section = section.model_copy(update={"in_context_tools": chosen})
        return self.config.model_copy(update={"toolyard": section})

    def _tool_tokens(self, tool: Tool[Any]) -> int:
        """Returns the tokens of a tool definition as the model sees it."""
        seen = {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}
        text = json.dumps(seen, ensure_ascii=False)
        if text not in self.token_counts:
            self.token_counts[text] = count_or_estimate_tokens(text)
        return self.token_counts[text]

    def _system_prompt(self, agent: Agent, injection: ToolInjection, home: AgentPaths, tools: Iterable[str]) -> str:
        shared = SHARED if injection.has_code_mode or home.is_own_folder else self._shared_folder(home)
        peers = home.peers
        return compose_prompt(
            PromptInputs(
                agent=agent.id,
                system_message=agent.system_message or "",
                workspace=home.workspace if injection.has_files else "",
                files_first=injection.files_first,
                tools=tuple(tools),
                peers=peers,
                shared=shared if peers and injection.has_files else "",
            )
        )

    def _shared_folder(self, home: AgentPaths) -> str:
        elsewhere = self.config.orchestrator.agent_temporary_workspace
        return os.path.join(self.config.base_folder(home.workspace), elsewhere) if elsewhere else home.shared_folder

    def _server_checks(self, rights: Authorization) -> Iterable[ServerCheck]:
        for entry in self.resolved.entries:
            if not rights.may_use(entry.name):
                continue
            known = self.known.get(entry.name)
            note = without_server_name(entry.name, known.error).removeprefix("it ") if known is not None else ""
            if known is None or not known.asked_at:
                yield ServerCheck(entry.name, ServerState.FAILED if note else ServerState.UNKNOWN, note=note)
                continue
            names = (tool.schema.name for tool in self.catalog.tools(entry.name))
            count = sum(rights.may_call(entry.name, name) for name in names)
            yield ServerCheck(entry.name, ServerState.KNOWN, count, note)
        for problem in self.resolved.errors:
            if rights.may_use(problem.server):
                yield ServerCheck(problem.server, ServerState.UNUSABLE, note=problem.text)

    def check_team(self, agents: Sequence[AgentCheck]) -> None:
        """Adds the findings that concern all agents together."""
        self.notices += [Finding(f"server {each.server}: {each.text}") for each in self.resolved.errors]
        self.notices += [Finding(each) for each in collision_notices(entry.name for entry in self.resolved.entries)]
        self.notices += [Finding(f"custom tool {each.name}: {each.text}") for each in self.custom.problems]
        try:
            check_folder_exists(root_of(self.config), self.config.source or "")
        except ToolyardError as error:
            self.problems.append(Finding(error.message, error.hint))
        folders: dict[str, list[str]] = {}
        for agent in agents:
            if agent.workspace:
                folders.setdefault(agent.workspace, []).append(agent.id)
        for folder, ids in folders.items():
            if len(ids) >= _MIN_SHARED:
                text = f"{', '.join(ids)} work in one folder, {folder}: they may overwrite each other's files."
                self.notices.append(Finding(text, "Give each a `cwd` of its own, or none."))
        self._note_servers([server for agent in agents for server in agent.servers])

    def _note_servers(self, servers: Sequence[ServerCheck]) -> None:
        used = {each.name for each in servers}
        lacks = (server_start_problem(entry, self.variables) for entry in self.resolved.entries if entry.name in used)
        self.notices += [lack for lack in lacks if lack is not None]
        for state, words in ((ServerState.UNKNOWN, "never asked"), (ServerState.FAILED, "asked and never answered")):
            names = {each.name for each in servers if each.state is state}
            if names:
                number = "1 server was" if len(names) == 1 else f"{len(names)} servers were"
                text = f"{number} {words}. The run asks when it starts; their tools are not counted here."
                file = shlex.quote(self.config.source or "")
                self.notices.append(Finding(text, f"Run `toolyard sync --config {file}` to ask now."))
