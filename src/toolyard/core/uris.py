"""Converts between file URIs and paths."""

from __future__ import annotations

from urllib.parse import quote, unquote, urlsplit

_SCHEME = "file"
_LOCAL_HOSTS = frozenset({"", "localhost"})


def path_to_uri(path: str) -> str:
    """Returns the `file:` URI of an absolute path."""
    return f"{_SCHEME}://{quote(path)}"


def uri_to_path(uri: str) -> str | None:
    """Returns the path that a `file:` URI names on this machine, or None for other URIs."""
    try:
        parts = urlsplit(uri)
    except ValueError:  # unbalanced brackets, or characters that are invalid in a host
        return None
    if parts.scheme != _SCHEME or parts.netloc not in _LOCAL_HOSTS or parts.query or parts.fragment:
        return None
    return unquote(parts.path, errors="surrogateescape")
