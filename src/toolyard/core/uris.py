"""File URIs and the paths that they name."""

from __future__ import annotations

from urllib.parse import quote, unquote, urlsplit

_SCHEME = "file"
_LOCAL_HOSTS = frozenset({"", "localhost"})


def path_to_uri(path: str) -> str:
    """An absolute path as a URI."""
    return f"{_SCHEME}://{quote(path)}"


def uri_to_path(uri: str) -> str | None:
    """The path that a URI names on this machine; None for one of another kind."""
    try:
        parts = urlsplit(uri)
    except ValueError:  # brackets that do not match, characters that only look like a host's
        return None
    if parts.scheme != _SCHEME or parts.netloc not in _LOCAL_HOSTS or parts.query or parts.fragment:
        return None
    return unquote(parts.path, errors="surrogateescape")
