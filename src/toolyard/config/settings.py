"""Settings from the environment, read once and only here.

Everything that depends on the user's machine (home, state folder, temp folder, token) comes from `Settings`, so that
tests and embedding programs can pass their own.
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
"""Proxy and certificate settings of the user's machine."""
_CLIENT_FOLDER_VARIABLES = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "QWEN_HOME")
MODEL_VARIABLE = "TOOLYARD_MODEL"
STATE_VARIABLE = "XDG_STATE_HOME"
DEFAULT_TEMP = "/tmp"  # noqa: S108 - the name of the folder, nothing is created in it here
_TEMPORARY_FOLDERS = (DEFAULT_TEMP, "/var/tmp")  # noqa: S108 - as above
_RUNTIME_FOLDERS = ("/run", "/var/run")
_USER_ENVIRONMENT = ("USER", "LOGNAME", "LANG", "TERM")


def environment() -> Mapping[str, str]:
    """Returns the environment variables of this process."""
    return os.environ


def set_process_variable(name: str, value: str) -> None:
    """Sets a variable for libraries that read the process environment themselves; call it before they are loaded."""
    os.putenv(name, value)


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the user's machine, from the environment."""

    home: str
    state_home: str
    """The folder of policy, audit log and snapshots; never inside a workspace."""
    temp_dir: str
    documents: str
    config_home: str = ""
    """The folder of the user's servers file."""
    token: str | None = field(default=None, repr=False)
    """The bearer token of the HTTP transport. Excluded from `repr`, and so from logs and tracebacks."""
    no_color: bool = False
    container_client: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Variables that a docker or podman client needs to find its engine."""
    model_access: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Keys and addresses of model providers and the proxy settings to reach them, by variable name."""
    client_folders: Mapping[str, str] = field(default_factory=dict[str, str])
    """Settings folders of other programs that are set by those programs' variables."""
    trace_endpoint: str | None = None
    """Where spans are sent if the configuration does not set it."""
    model: str | None = None
    """The assistant's model; overrides the configuration."""
    project_root: str | None = None
    """The folder that the assistant serves by default."""
    runtime_dir: str = ""
    """The user's folder for sockets ($XDG_RUNTIME_DIR); empty if the system has none."""
    user_environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """User and terminal variables that a command without a sandbox gets in addition to HOME."""

    @property
    def temporary_folders(self) -> tuple[str, ...]:
        """The folders for temporary files that all programs of the machine share."""
        return tuple(dict.fromkeys((*_TEMPORARY_FOLDERS, self.temp_dir)))

    @property
    def runtime_folders(self) -> tuple[str, ...]:
        """The folders in which services create their sockets."""
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
    """Whether the variable has a value. Some programs pass on `${NAME}` literally if NAME is not set."""
    return variables.get(name, "").strip() not in {"", f"${name}", f"${{{name}}}"}


def _absolute_folder(value: str | None) -> str | None:
    """Returns the folder that a variable names; a relative path is ignored, as the XDG specification requires."""
    return os.path.normpath(value) if value and os.path.isabs(value) else None
