"""The individual checks of a run: models and prices, servers, the folder, rights, the sandbox.

None of them changes anything. A problem that would stop the run is raised as a ToolyardError.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from toolyard.app.fresh_start import reason_not_to_empty
from toolyard.app.sandbox_preflight import tested_sandbox
from toolyard.config.expansion import expand_entry, unset_variables
from toolyard.core.errors import ConfigError, SystemFault
from toolyard.core.paths import is_beneath
from toolyard.core.permission_modes import PermissionMode
from toolyard.drivers.credentials import missing_access
from toolyard.drivers.registry import driver_of
from toolyard.mcp_client.environment import server_environment
from toolyard.mcp_client.errors import ServerUnavailable
from toolyard.mcp_client.process import ServerProgram
from toolyard.models.endpoint import ModelEndpoint, resolve_endpoint
from toolyard.models.error_wording import BACKEND_WORDING
from toolyard.models.lazy_import import require_library
from toolyard.sandbox.spec import Tier
from toolyard.team.check.report import Finding
from toolyard.workspace.agent_paths import AgentPaths

if TYPE_CHECKING:
    from toolyard.config.backends import BackendKind
    from toolyard.config.models import Agent, Backend, CodeExecution, Config, TeamLimits
    from toolyard.config.server_entry import ServerEntry
    from toolyard.config.settings import Settings

MODE_RIGHTS: Final[Mapping[PermissionMode, str]] = {
    PermissionMode.STRICT: "reads and writes in its folder, nothing outside it",
    PermissionMode.PLAN: "reads in its folder, changes nothing, runs only commands that read",
    PermissionMode.ACCEPT_EDITS: "reads and writes in its folder; asks before anything outside, and before commands "
    "that may change something",
    PermissionMode.MODERATE: "reads and writes in its folder, with file tools also in your Documents and the temp "
    "folder",
    PermissionMode.DEFAULT: "reads in its folder; asks before it writes and before commands",
    PermissionMode.BYPASS: "does anything that you may do, without asking",
}
ASKING_MODES: Final = frozenset({PermissionMode.ACCEPT_EDITS, PermissionMode.DEFAULT})
_PRICED_AS: Final[Mapping[str, str]] = {"gemini": "google", "openai": "openai", "claude": "anthropic"}
"""Provider whose prices apply, by API, if the endpoint is unknown."""
_AUTO_ROUTED_MODEL: Final = "openrouter/auto"
"""Its answers name the model that was chosen, which determines the price."""
_TIER_NAMES: Final = {Tier.NONE: "no sandbox", Tier.DOCKER: "a container"}


def model_and_access(
    backend: Backend, kind: BackendKind, settings: Settings, variables: Mapping[str, str]
) -> tuple[str, str]:
    """Returns the model and the credentials it uses. Raises ToolyardError if it cannot be reached."""
    return (
        _cli_model_and_access(backend, kind, settings, variables)
        if kind.driver
        else _api_model_and_access(backend, settings)
    )


def _api_model_and_access(backend: Backend, settings: Settings) -> tuple[str, str]:
    endpoint = resolve_endpoint(backend, settings.model_access)
    require_library(BACKEND_WORDING.extra)
    key = f"key from {endpoint.key_source}" if endpoint.key_source else "no key"
    return endpoint.model, key if endpoint.is_official else f"{key}, at {endpoint.address}"


def _cli_model_and_access(
    backend: Backend, kind: BackendKind, settings: Settings, variables: Mapping[str, str]
) -> tuple[str, str]:
    driver = driver_of(kind.driver)
    program = shutil.which(driver.program, path=variables.get("PATH"))
    if program is None:
        raise SystemFault(
            f"{driver.title} is not installed: there is no {driver.program!r} on the PATH.",
            hint=f"Install it with: npm install -g {driver.package}",
        )
    if (lack := missing_access(driver, variables, settings.home)) is not None:
        raise SystemFault(f"{driver.title} would not start: {lack.what}.", hint=lack.fix)
    named = next((name for name in (*driver.keys, *driver.key_alternatives) if variables.get(name)), "")
    if named:
        how = f"key from {named}"
    else:
        has_login = any(os.path.isfile(login.path(settings.home, variables)) for login in driver.logins)
        how = "its own login" if has_login else "no key"
    return backend.model or "its own default", f"{program}, {how}"


def unpriced_model_notices(config: Config, settings: Settings, limits: TeamLimits | None = None) -> list[str]:
    """Returns a notice for each model without a known price, which the cost limit cannot bound.

    `limits` replaces the limits of the configuration. Returns nothing, and loads nothing, without a cost limit.
    """
    if (limits or config.orchestrator.limits).cost is None:
        return []
    notices: dict[str, None] = {}
    for agent in config.agents:
        kind = agent.backend.kind
        if kind is None or not kind.api:
            continue
        try:
            endpoint = resolve_endpoint(agent.backend, settings.model_access)
        except ConfigError:
            continue  # another check reports that this model is not usable
        if not endpoint.is_free and not _has_price(endpoint):
            notices[
                f"the price of {endpoint.model} is unknown, so `cost` does not limit it; check the model's name"
            ] = None
    return list(notices)


def _has_price(endpoint: ModelEndpoint) -> bool:
    """Looks up the price in the same way as for an answer. Without the pricing library no model runs either."""
    if endpoint.model == _AUTO_ROUTED_MODEL:
        return True
    try:
        from genai_prices.data_snapshot import get_snapshot
    except ImportError:
        return True
    snapshot = get_snapshot()
    for provider, address in ((None, endpoint.base_url), (_PRICED_AS[endpoint.kind.api], None)):
        with contextlib.suppress(LookupError):
            snapshot.find_provider_model(endpoint.model, None, provider, address)
            return True
    return False


def server_start_problem(entry: ServerEntry, variables: Mapping[str, str]) -> Finding | None:
    """Returns why the server cannot be started, or None. Does not start it."""
    if unset := unset_variables(entry, variables):
        are = "variable {} is" if len(unset) == 1 else "variables {} are"
        text = f"the {are.format(', '.join(unset))} not set, so it cannot be started."
        return Finding(f"server {entry.name}: {text}", f"Set {'it' if len(unset) == 1 else 'them'} before the run.")
    try:
        started = expand_entry(entry, variables)
    except ConfigError as error:
        return Finding(f"server {entry.name}: cannot be started: {error.message}", error.hint)
    if started.transport != "stdio":
        return None
    env = server_environment(variables, started.env)
    try:
        ServerProgram(started.name, started.command_line, env, started.cwd).resolve_command()
    except ServerUnavailable as error:
        program = entry.command_line[0]  # the unexpanded text: a variable may hold a secret
        where = "" if "/" in program else " on the PATH"
        return Finding(f"server {entry.name}: there is no program {program!r}{where}.", error.hint)
    return None


def describe_folder(home: AgentPaths, config: Config, agent: Agent, settings: Settings) -> str:
    """Describes what happens to the agent's folder at the start. Raises ConfigError if it is unusable."""
    folder, where = home.workspace, config.source or ""
    if is_beneath(os.path.realpath(home.state), folder):
        raise ConfigError(
            f"the state folder {home.state} lies inside {folder}, where agents could change it.",
            where=where,
            hint="Choose another one with --state DIR.",
        )
    if not check_folder_exists(folder, where):
        return "is created"
    if not agent.backend.fresh:
        return "is used unchanged" if _has_files(folder) else "exists and is empty"
    if why := reason_not_to_empty(home, config, settings):
        raise ConfigError(
            f"{folder} cannot be emptied for a fresh start: {why}.",
            where=where,
            hint="Give the agent a `cwd` of its own, or leave out `fresh: true`.",
        )
    return "is emptied (`fresh: true`); a snapshot keeps what is in it"


def check_folder_exists(folder: str, where: str) -> bool:
    """Whether the folder exists; False if it can be created. Raises ConfigError if it cannot."""
    above = _nearest_existing(folder)
    if not os.path.isdir(above):
        raise ConfigError(f"{above} is a file, not a folder.", where=where, hint="Name another folder.")
    if not os.access(above, os.W_OK | os.X_OK):
        raise ConfigError(f"{above} is not writable.", where=where, hint="Name another folder.")
    return above == folder


def _nearest_existing(folder: str) -> str:
    """Returns the folder, or the closest parent that exists."""
    while not os.path.lexists(folder) and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
    return folder


def _has_files(folder: str) -> bool:
    try:
        with os.scandir(folder) as entries:
            return any(not entry.is_symlink() for entry in entries)  # our own links are not the agent's work
    except OSError:
        return True


def describe_sandbox(execution: CodeExecution, settings: Settings, mode: PermissionMode) -> str:
    """Describes where commands and code run, by starting a sandbox. Raises SecurityError if none is available."""
    if not execution.enabled:
        return "commands and code are switched off"
    choice = tested_sandbox(execution, settings, mode)
    text = _TIER_NAMES.get(choice.tier, choice.tier.value)
    if choice.tier is Tier.NONE:
        return f"{text}: commands run with all your rights"
    if choice.tier is Tier.DOCKER:
        network = execution.docker.network
        text = f"{text} ({execution.docker.image or 'the default image'})"
        reach = "no network" if network == "none" else f"network {network}"
    else:
        reach = "no network"
    if execution.allowed_hosts:
        reach = f"network only to {', '.join(execution.allowed_hosts)}"
    return f"{text}, {reach}"
