"""Which model is meant, where it listens, and with which key: what a backend and the providers' variables say.

What the file says comes first, then the variables of the backend's kind, then the kind's own defaults. A server on
this machine needs no key. The key is kept out of `repr`, and `mask_secrets` takes it out of what others say.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit, urlunsplit
from urllib.request import proxy_bypass_environment  # pyright: ignore[reportUnknownVariableType, reportAttributeAccessIssue]

from toolyard.config.backends import BackendKind
from toolyard.config.models import Backend
from toolyard.core.errors import ConfigError
from toolyard.core.redaction import collect_secrets, mask_secrets
from toolyard.models.error_wording import BACKEND_WORDING, ErrorWording

PLACEHOLDER_KEY = "none"
"""Sent where a server wants no key, and the SDK will not go without."""
_OFFICIAL_URLS: Mapping[str, str] = {
    "gemini": "https://generativelanguage.googleapis.com",
    "openai": "https://api.openai.com/v1",
    "claude": "https://api.anthropic.com",
}
_APPENDED_BY_SDK: Mapping[str, tuple[str, ...]] = {"gemini": ("/v1beta", "/v1"), "claude": ("/v1",), "openai": ()}
_SELF_HOSTED = frozenset({"ollama", "llama.cpp", "vllm", "lmstudio"})


@dataclass(frozen=True, slots=True)
class ModelEndpoint:
    kind: BackendKind
    model: str
    base_url: str = field(repr=False)
    key: str = field(default="", repr=False)
    key_source: str = ""
    """Where the key came from, as its user would name it."""
    proxy: str = field(default="", repr=False)
    """Through which it is reached; empty where it is reached directly."""
    certificates: str = ""
    """A file with those that are trusted beside the system's."""
    wording: ErrorWording = BACKEND_WORDING
    """Who is told of what goes wrong there."""

    @property
    def address(self) -> str:
        """Where it listens, to be shown: without a password and what else may be in an address."""
        parts = urlsplit(self.base_url)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.base_url)

    @property
    def is_free(self) -> bool:
        """Whether it is a server of one's own, whose tokens have no price."""
        return self.kind.name in _SELF_HOSTED or (self.kind.api == "openai" and self.is_loopback)

    @property
    def is_official(self) -> bool:
        """Whether it is where the maker of the API listens itself."""
        return urlsplit(self.base_url).hostname == urlsplit(_OFFICIAL_URLS[self.kind.api]).hostname

    def mask_secrets(self, text: str) -> str:
        """A text of others without the key, and what else the addresses may hold of secrets."""
        return mask_secrets(text, collect_secrets(self.base_url, self.proxy, key=self.key))


def resolve_endpoint(
    backend: Backend, access: Mapping[str, str], wording: ErrorWording = BACKEND_WORDING
) -> ModelEndpoint:
    """Raises ConfigError, also where a key is missing."""
    kind = backend.kind
    if kind is None:
        raise ConfigError("`backend.type` is not set.", hint="Name an API, such as `gemini`, `openai` or `claude`.")
    if not kind.api:
        raise ConfigError(f"`{kind.name}` is a CLI that is driven, no model API.")
    model = backend.model or kind.default_model
    if not model:
        raise ConfigError(f"`{kind.name}` has no model of its own choice.", hint=f"Set {wording.model}.")
    base_url = _resolve_base_url(backend, kind, access, wording)
    key, source = _find_key(backend, kind, access)
    if kind.needs_key and not key and not is_loopback(base_url):
        raise ConfigError(
            f"There is no key for {kind.title}.",
            hint=f"Set {' or '.join(kind.key_variables)}, or {wording.key_alternative}.",
        )
    proxy, certificates = _proxy_for(base_url, access), access.get("SSL_CERT_FILE", "")
    return ModelEndpoint(kind, model, base_url, key, source, proxy, certificates, wording)


def is_loopback(base_url: str) -> bool:
    host = (urlsplit(base_url).hostname or "").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _proxy_for(base_url: str, access: Mapping[str, str]) -> str:
    """As the user's usual variables say; what is on this machine needs none.

    Such variables are spelled in both cases; the small one goes first, as with other programs.
    """
    parts = urlsplit(base_url)
    without = {"no": access.get("no_proxy") or access.get("NO_PROXY", "")}
    if is_loopback(base_url) or proxy_bypass_environment(parts.netloc.rpartition("@")[2], without):
        return ""
    names = (f"{parts.scheme}_proxy", "all_proxy")
    variable = next((each for name in names for each in (name, name.upper()) if access.get(each)), "")
    if not variable:
        return ""
    said = access[variable] if "://" in access[variable] else f"http://{access[variable]}"
    if not _is_http_url(said):
        raise ConfigError(
            f"{variable} is no address of a proxy that can be used.", hint="One looks like http://proxy:3128."
        )
    return said


def _find_key(backend: Backend, kind: BackendKind, access: Mapping[str, str]) -> tuple[str, str]:
    own = backend.api_key.get_secret_value().strip() if backend.api_key is not None else ""
    if own:
        return own, "`backend.api_key`"
    for variable in kind.key_variables:
        if value := access.get(variable, "").strip():
            return value, variable
    return "", ""


def _is_http_url(text: str) -> bool:
    try:
        parts = urlsplit(text.strip())
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _resolve_base_url(backend: Backend, kind: BackendKind, access: Mapping[str, str], wording: ErrorWording) -> str:
    said, where = backend.base_url, "`backend.base_url`"
    if not said and kind.base_url_variable and access.get(kind.base_url_variable):
        said, where = access[kind.base_url_variable], kind.base_url_variable
    if not said:
        said = kind.base_url or ("" if kind.needs_base_url else _OFFICIAL_URLS[kind.api])
    if not said:
        raise ConfigError(
            f"It is not said where the {kind.title} listens.",
            hint=f"Set {' or '.join(filter(None, (wording.address, kind.base_url_variable)))}.",
        )
    if not _is_http_url(said):
        raise ConfigError(f"{where} is no address.", hint="One looks like http://localhost:8080/v1.")
    parts = urlsplit(said.strip())
    path = parts.path.rstrip("/")
    for ending in _APPENDED_BY_SDK[kind.api]:
        path = path.removesuffix(ending)
    if kind.name in _SELF_HOSTED and not path:
        path = "/v1"
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))
