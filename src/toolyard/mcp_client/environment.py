"""The environment variables that a server's process gets. `docs/server-entries.md` lists the same names.

They are what programs need to run and to reach the network: certificates, proxies, language and time zone. Nothing
else is passed, because any other variable may be a secret. A proxy URL may contain a password: the server gets it,
and its `SecretMask` hides it everywhere else (`proxy_secrets`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import unquote, urlsplit

_MACHINE = (
    *("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "TMPDIR"),
    *("LANG", "LANGUAGE", "TZ", "TZDIR"),
)
_LOCALE_PREFIX = "LC_"
_CERTIFICATES = (
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
    *("NODE_USE_SYSTEM_CA", "AWS_CA_BUNDLE", "GIT_SSL_CAINFO", "PIP_CERT", "UV_SYSTEM_CERTS", "NPM_CONFIG_CAFILE"),
    "npm_config_cafile",
)
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
_PROXY_OPTIONS = ("NO_PROXY", "no_proxy", "NODE_USE_ENV_PROXY")
PASSED_VARIABLES = frozenset((*_MACHINE, *_CERTIFICATES, *_PROXIES, *_PROXY_OPTIONS))
_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"


def server_environment(host: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Returns the passed variables of the host, overridden by those of the entry."""
    base = {
        name: value
        for name, value in host.items()
        # Such a value is an exported shell function, which an old shell would run.
        if (name in PASSED_VARIABLES or name.startswith(_LOCALE_PREFIX)) and not value.startswith("()")
    }
    return {"PATH": _DEFAULT_PATH, **base, **own}


def proxy_secrets(env: Mapping[str, str]) -> Iterator[str]:
    """Yields proxy URLs that contain a password, and the passwords."""
    for name in _PROXIES:
        address = env.get(name, "")
        try:
            password = urlsplit(address if "://" in address else f"//{address}").password
        except ValueError:  # brackets without an address
            continue
        if password:
            yield from (address, password, unquote(password))
