"""What a server's process sees of the user's environment: enough to run, and nothing that may be a secret."""

from __future__ import annotations

from collections.abc import Mapping

# What the MCP SDK's client passes on, and what decides the language and the temporary folder.
_PASSED = (
    *("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"),
    *("LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"),
)
_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"


def server_environment(host: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """A few variables of the host's, and the entry's own over them."""
    # A value that begins like this is a function of an old shell's, which it would run.
    base = {name: host[name] for name in _PASSED if name in host and not host[name].startswith("()")}
    return {"PATH": _DEFAULT_PATH, **base, **own}
