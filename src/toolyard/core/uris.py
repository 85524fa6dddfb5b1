"""File URIs and the paths that they name."""

from __future__ import annotations

from urllib.parse import quote, unquote, urlsplit

_SCHEME = "file"
_HERE = frozenset({"", "localhost"})


def uri_of(path: str) -> str:
    """An absolute path as a URI."""
    return f"{_SCHEME}://{quote(path)}"


def path_of(uri: str) -> str | None:
    """The path that a URI names on this machine; None for one of another kind."""
    try:
        parts = urlsplit(uri)
    except ValueError:  # brackets that do not match, characters that only look like a host's
        return None
    if parts.scheme != _SCHEME or parts.netloc not in _HERE or parts.query or parts.fragment:
        return None
    return unquote(parts.path, errors="surrogateescape")
