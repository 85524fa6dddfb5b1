"""The errors of the bridge. All derive from errors of `toolyard.core.errors`.

    SecurityError
    ├── PathRefusedError          the path is not allowed; `violation` says in which way
    └── ClientRefusedError        the client had too many violations: all its requests are refused for a while
    ValidationError
    └── CacheRefusedError         the cache cannot hold the content
    ToolError
    ├── SamplingUnsupportedError  the client does not support sampling; the hint names alternatives
    ├── SamplingTimeoutError      the client did not answer in time
    ├── SamplingRefusedError      the client refused or failed
    ├── ResourceRefusedError      the server whose resources are read refused or failed
    ├── BadAnswerError            the client's answer is not what was asked for
    ├── MissingFileError          the file does not exist at the client
    └── UnreadableFileError       the client may not read the file

`facts["reason"]` identifies them for programs, also across the wire.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import ClassVar

from toolyard.core.errors import FieldError, SecurityError, ToolError, ValidationError

_SHOWN_CHARS = 200


def printable_text(text: str) -> str:
    """Returns a client's text, such as a path, safe to print: without control characters, and shortened."""
    cut = text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS - 1]}…"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in cut)


class Violation(StrEnum):
    """The way in which a path violates the policy."""

    OUTSIDE = "outside"
    """It is outside the allowed paths."""
    TRAVERSAL = "traversal"
    """It climbs out of the project with `..`."""
    FORM = "form"
    """Its spelling means different things on different systems."""
    UNICODE = "unicode"
    """It has characters that are invisible or look like others."""
    LINK = "link"
    """It is a link that leads outside."""
    CIRCULAR = "circular"
    """It is a link that leads to itself."""


class PathRefusedError(SecurityError):
    """The path is not allowed."""

    def __init__(self, path: str, violation: Violation, why: str, *, hint: str) -> None:
        super().__init__(
            f"{printable_text(path)} {why}", hint=hint, facts={"reason": "path_refused", "violation": violation}
        )
        self.path = path
        self.violation = violation


class ClientRefusedError(SecurityError):
    """The client has requested forbidden paths too often."""

    def __init__(self, violations: int, seconds: float | None = None) -> None:
        """`seconds` is the remaining time of the refusal; None: until the server restarts."""
        wait = "until the server restarts" if seconds is None else f"for {math.ceil(seconds)} more seconds"
        super().__init__(
            f"This client has requested forbidden paths {violations} times and is refused {wait}.",
            hint="After that, request only paths inside the allowed folders.",
            facts={"reason": "client_refused"},
        )


class CacheRefusedError(ValidationError):
    """The cache cannot hold the content."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(
            f"{printable_text(path)} {why}",
            (FieldError("content", why),),
            hint="Push a smaller file, or a part of it under another name.",
        )
        self.facts = {"reason": "cache_refused"}


class _BridgeError(ToolError):
    reason: ClassVar[str]

    def __init__(self, message: str, *, hint: str, retryable: bool = False) -> None:
        super().__init__(message, hint=hint, retryable=retryable, facts={"reason": self.reason})


class SamplingUnsupportedError(_BridgeError):
    """The client does not support sampling; the hint names alternatives."""

    reason = "sampling_unsupported"

    def __init__(self, wanted: str, *, hint: str, for_author: str) -> None:
        """`hint` is for the calling agent; `for_author`, for the server's author, is in `data()` and the log."""
        super().__init__(f"This client cannot be asked for {wanted}: it does not support MCP sampling.", hint=hint)
        self.for_author = for_author
        self.facts = {**self.facts, "for_author": for_author}


class SamplingTimeoutError(_BridgeError):
    """The client did not answer in time."""

    reason = "sampling_timeout"

    def __init__(self, wanted: str, seconds: float) -> None:
        super().__init__(
            f"The client did not provide {wanted} within {seconds:g} seconds.",
            hint="Try again, or have the agent push the file with guide_cache_file.",
            retryable=True,
        )


class SamplingRefusedError(_BridgeError):
    """The client refused the request or failed."""

    reason = "sampling_refused"

    def __init__(self, wanted: str, why: str) -> None:
        super().__init__(
            f"The client did not provide {wanted}: {why.rstrip('.')}.",
            hint="Its user may have declined. The agent can push the file with guide_cache_file.",
        )


class ResourceRefusedError(_BridgeError):
    """The server whose resources are read refused the request or failed."""

    reason = "resource_refused"

    def __init__(self, wanted: str, why: str) -> None:
        super().__init__(
            f"The client's resource server did not provide {wanted}: {why.rstrip('.')}.",
            hint="Check which resources that server exposes. The agent can push the file with guide_cache_file.",
        )


class BadAnswerError(_BridgeError):
    """The client's answer is not what was asked for."""

    reason = "bad_answer"

    def __init__(self, wanted: str, why: str) -> None:
        super().__init__(
            f"The client's answer about {wanted} cannot be used: {why}.",
            hint="The answer was discarded. Try again, or have the agent push the file with guide_cache_file.",
            retryable=True,
        )
        self.why = why


class MissingFileError(_BridgeError):
    """The file or folder does not exist at the client."""

    reason = "not_found"

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{printable_text(path)} does not exist at the client.", hint="List the folder to see what is there."
        )


class UnreadableFileError(_BridgeError):
    """The file exists, but the client may not read it."""

    reason = "permission_denied"

    def __init__(self, path: str) -> None:
        super().__init__(
            f"The client may not read {printable_text(path)}.", hint="Its user can change who may read the file."
        )
