"""Resolves which model is meant, its address and its key from the backend and the providers' environment variables.

The configuration file has precedence, then the variables of the backend's kind, then the kind's defaults. A server on
this machine needs no key. The key is excluded from `repr`, and `mask_secrets` removes it from texts of others.
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
"""Sent to servers that need no key, because the SDKs require one."""
_OFFICIAL_URLS: Mapping[str, str] = {
    "gemini": "https://generativelanguage.googleapis.com",
    "openai": "https://api.openai.com/v1",
    "claude": "https://api.anthropic.com",
}
_APPENDED_BY_SDK: Mapping[str, tuple[str, ...]] = {"gemini": ("/v1beta", "/v1"), "claude": ("/v1",), "openai": ()}
_SELF_HOSTED = frozenset({"ollama", "llama.cpp", "vllm", "lmstudio"})


@dataclass(frozen=True, slots=True)
class ModelEndpoint:
    """A model, its address, and what is needed to reach it."""

    kind: BackendKind
    model: str
    base_url: str = field(repr=False)
    key: str = field(default="", repr=False)
    key_source: str = ""
    """Where the key came from, in the user's terms."""
    proxy: str = field(default="", repr=False)
    """The proxy's URL; empty for a direct connection."""
    certificates: str = ""
    """A file with certificates that are trusted in addition to the system's."""
    wording: ErrorWording = BACKEND_WORDING
    """How errors of this endpoint are worded."""

    @property
    def address(self) -> str:
        """The base URL without user, password and query, for messages."""
        parts = urlsplit(self.base_url)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.base_url)

    @property
    def is_free(self) -> bool:
        """Whether it is a self-hosted server, whose tokens have no price."""
        return self.kind.name in _SELF_HOSTED or (self.kind.api == "openai" and self.is_loopback)

    @property
    def is_official(self) -> bool:
        """Whether it is the official API of the company that defines it."""
        return urlsplit(self.base_url).hostname == urlsplit(_OFFICIAL_URLS[self.kind.api]).hostname

    def mask_secrets(self, text: str) -> str:
        """Returns the text without the key and without secrets in the base URL or the proxy's URL."""
        return mask_secrets(text, collect_secrets(self.base_url, self.proxy, key=self.key))


def resolve_endpoint(
    backend: Backend, access: Mapping[str, str], wording: ErrorWording = BACKEND_WORDING
) -> ModelEndpoint:
    """Resolves the endpoint of a backend. Raises ConfigError, also if a key is missing."""
    kind = backend.kind
    if kind is None:
        raise ConfigError("`backend.type` is not set.", hint="Name an API, such as `gemini`, `openai` or `claude`.")
    if not kind.api:
        raise ConfigError(f"`{kind.name}` is a CLI, not a model API.")
    model = backend.model or kind.default_model
    if not model:
        raise ConfigError(f"`{kind.name}` has no default model.", hint=f"Set {wording.model}.")
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
    """Whether a URL points to this machine."""
    host = (urlsplit(base_url).hostname or "").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _proxy_for(base_url: str, access: Mapping[str, str]) -> str:
    """Returns the proxy for a URL by the usual variables; empty for servers on this machine.

    The variables exist in both cases; as in other programs, the lower-case one has precedence.
    """
    parts = urlsplit(base_url)
    without = {"no": access.get("no_proxy") or access.get("NO_PROXY", "")}
    if is_loopback(base_url) or proxy_bypass_environment(parts.netloc.rpartition("@")[2], without):
        return ""
    names = (f"{parts.scheme}_proxy", "all_proxy")
    variable = next((each for name in names for each in (name, name.upper()) if access.get(each)), "")
    if not variable:
        return ""
    url = access[variable] if "://" in access[variable] else f"http://{access[variable]}"
    if not _is_http_url(url):
        raise ConfigError(f"{variable} is not a valid proxy URL.", hint="Use a form such as http://proxy:3128.")
    return url


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
    url, where = backend.base_url, "`backend.base_url`"
    if not url and kind.base_url_variable and access.get(kind.base_url_variable):
        url, where = access[kind.base_url_variable], kind.base_url_variable
    if not url:
        url = kind.base_url or ("" if kind.needs_base_url else _OFFICIAL_URLS[kind.api])
    if not url:
        raise ConfigError(
            f"The address of the {kind.title} is not set.",
            hint=f"Set {' or '.join(filter(None, (wording.address, kind.base_url_variable)))}.",
        )
    if not _is_http_url(url):
        raise ConfigError(f"{where} is not a valid URL.", hint="Use a form such as http://localhost:8080/v1.")
    parts = urlsplit(url.strip())
    path = parts.path.rstrip("/")
    for ending in _APPENDED_BY_SDK[kind.api]:
        path = path.removesuffix(ending)
    if kind.name in _SELF_HOSTED and not path:
        path = "/v1"
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))
