"""What the environment says, read once and nowhere else.

Everything that depends on the user's machine (home, state folder, temp folder, token) is taken from here, so
that tests and embedding programs can hand in their own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from toolyard.config.backends import PROVIDER_VARIABLES

STATE_FOLDER = "toolyard"
CONFIG_FOLDER = "toolyard"
_CONTAINER_CLIENT_VARIABLES = (
    *("PATH", "HOME", "XDG_RUNTIME_DIR", "DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH"),
    *("DOCKER_TLS_VERIFY", "CONTAINER_HOST", "XDG_CONFIG_HOME", "XDG_DATA_HOME"),
)
_NETWORK_VARIABLES = (
    *("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY", "https_proxy", "http_proxy", "all_proxy", "no_proxy"),
    "SSL_CERT_FILE",
)
"""How the user's machine reaches others."""
_CLIENT_FOLDER_VARIABLES = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "QWEN_HOME")
MODEL_VARIABLE = "TOOLYARD_MODEL"
STATE_VARIABLE = "XDG_STATE_HOME"
DEFAULT_TEMP = "/tmp"  # noqa: S108 - the name of the folder, nothing is created in it here
_TEMPORARY_FOLDERS = (DEFAULT_TEMP, "/var/tmp")  # noqa: S108 - as above
_RUNTIME_FOLDERS = ("/run", "/var/run")
_USER_ENVIRONMENT = ("USER", "LOGNAME", "LANG", "TERM")


def environment() -> Mapping[str, str]:
    """The variables of this process."""
    return os.environ


def set_process_variable(name: str, value: str) -> None:
    """Set a variable for libraries in this process that look for it themselves, before they are loaded."""
    os.putenv(name, value)


@dataclass(frozen=True, slots=True)
class Settings:
    home: str
    state_home: str
    """Where policy, audit log and snapshots live; never inside a workspace."""
    temp_dir: str
    documents: str
    config_home: str = ""
    """Where the user's own servers file lies."""
    token: str | None = field(default=None, repr=False)
    """The bearer token of the HTTP surface. Kept out of `repr`, and so out of logs and tracebacks."""
    no_color: bool = False
    container_client: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """What a docker or podman client needs to find its engine."""
    model_access: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Keys and addresses of model providers, and what it takes to reach them, by their variables."""
    client_folders: Mapping[str, str] = field(default_factory=dict[str, str])
    """Where other programs keep their settings, when a variable of theirs says so."""
    trace_endpoint: str | None = None
    """Where spans are sent when the configuration does not say."""
    model: str | None = None
    """The model that the assistant asks, whatever the configuration says."""
    project_root: str | None = None
    """The folder that the assistant serves, where no other is named."""
    runtime_dir: str = ""
    """The user's folder for sockets ($XDG_RUNTIME_DIR); empty where the system has none."""
    user_environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """Who the caller is and what their terminal is like: what a command without a sandbox gets beside HOME."""

    @property
    def temporary_folders(self) -> tuple[str, ...]:
        """The folders that every program of the machine puts temporary files into."""
        return tuple(dict.fromkeys((*_TEMPORARY_FOLDERS, self.temp_dir)))

    @property
    def runtime_folders(self) -> tuple[str, ...]:
        """The folders that services put their sockets into."""
        return (*_RUNTIME_FOLDERS, self.runtime_dir) if self.runtime_dir else _RUNTIME_FOLDERS

    @classmethod
    def from_environment(cls, env: Mapping[str, str] | None = None) -> Settings:
        variables = environment() if env is None else env
        home = _absolute_folder(variables.get("HOME")) or os.path.expanduser("~")
        state = _absolute_folder(variables.get(STATE_VARIABLE)) or os.path.join(home, ".local", "state")
        config = _absolute_folder(variables.get("XDG_CONFIG_HOME")) or os.path.join(home, ".config")
        return cls(
            home=home,
            state_home=os.path.join(state, STATE_FOLDER),
            runtime_dir=_absolute_folder(variables.get("XDG_RUNTIME_DIR")) or "",
            config_home=os.path.join(config, CONFIG_FOLDER),
            temp_dir=_absolute_folder(variables.get("TMPDIR")) or DEFAULT_TEMP,
            documents=_absolute_folder(variables.get("XDG_DOCUMENTS_DIR")) or os.path.join(home, "Documents"),
            token=variables.get("TOOLYARD_TOKEN") or None,
            no_color=bool(variables.get("NO_COLOR")),
            container_client={name: variables[name] for name in _CONTAINER_CLIENT_VARIABLES if name in variables},
            model_access={
                name: variables[name]
                for name in (*PROVIDER_VARIABLES, *_NETWORK_VARIABLES)
                if _is_set(name, variables)
            },
            client_folders={
                name: os.path.abspath(variables[name]) for name in _CLIENT_FOLDER_VARIABLES if variables.get(name)
            },
            trace_endpoint=variables.get("OTEL_EXPORTER_OTLP_ENDPOINT") or None,
            model=variables[MODEL_VARIABLE].strip() if _is_set(MODEL_VARIABLE, variables) else None,
            project_root=os.path.abspath(variables["PROJECT_ROOT"]) if variables.get("PROJECT_ROOT") else None,
            user_environment={name: variables[name] for name in _USER_ENVIRONMENT if variables.get(name)},
        )


def _is_set(name: str, variables: Mapping[str, str]) -> bool:
    """Some programs hand on a reference to a variable as it is written where there is none of that name."""
    return variables.get(name, "").strip() not in {"", f"${name}", f"${{{name}}}"}


def _absolute_folder(value: str | None) -> str | None:
    """The folder named by a variable; a relative one is ignored, as the XDG specification asks."""
    return os.path.normpath(value) if value and os.path.isabs(value) else None
