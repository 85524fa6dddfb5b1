"""What can go wrong between a server and the files of its client. All are errors of `toolyard.core.errors`.

    SecurityError
    ├── PathRefusedError          a path that may not be touched; `violation` says in which way
    └── ClientRefusedError        a client that tried too often: all it asks is refused for a while
    ValidationError
    └── CacheRefusedError         content that the cache cannot take: larger than all of it
    ToolError
    ├── SamplingUnsupportedError  this client cannot be asked; the hint names the other ways
    ├── SamplingTimeoutError      it did not answer in time
    ├── SamplingRefusedError      it said no, or could not
    ├── ResourceRefusedError      the server beside it, whose resources are read, said no
    ├── BadAnswerError            it answered something else than what was asked for
    ├── MissingFileError          there is no such file at the client's
    └── UnreadableFileError       there is one, and the client may not read it

`facts["reason"]` tells them apart for programs, also across the wire.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import ClassVar

from toolyard.core.errors import FieldError, SecurityError, ToolError, ValidationError

_SHOWN_CHARS = 200


def printable_text(text: str) -> str:
    """What a client calls a file, safe to print: nothing in it acts on a terminal, and it is not a page long."""
    cut = text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS - 1]}…"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in cut)


class Violation(StrEnum):
    """In which way a path breaks the rules."""

    OUTSIDE = "outside"
    """It lies outside what is allowed."""
    TRAVERSAL = "traversal"
    """It climbs out of the project with `..`."""
    FORM = "form"
    """It is spelled in a way that means different things to different systems."""
    UNICODE = "unicode"
    """It has characters that cannot be seen, or look like others."""
    LINK = "link"
    """It is a link that leads outside."""
    CIRCULAR = "circular"
    """It is a link that leads to itself."""


class PathRefusedError(SecurityError):
    """A path that may not be touched."""

    def __init__(self, path: str, violation: Violation, why: str, *, hint: str) -> None:
        super().__init__(
            f"{printable_text(path)} {why}", hint=hint, facts={"reason": "path_refused", "violation": violation}
        )
        self.path = path
        self.violation = violation


class ClientRefusedError(SecurityError):
    """A client that has asked too often for what it may not have."""

    def __init__(self, violations: int, seconds: float | None = None) -> None:
        """`seconds` is how much longer it is refused; None: until the server restarts."""
        wait = "until the server restarts" if seconds is None else f"for {math.ceil(seconds)} more seconds"
        super().__init__(
            f"This client has asked {violations} times for paths that it may not have, and is refused {wait}.",
            hint="Ask only for paths inside the allowed folders from then on.",
            facts={"reason": "client_refused"},
        )


class CacheRefusedError(ValidationError):
    """Content that cannot be kept."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(
            f"{printable_text(path)} {why}",
            (FieldError("content", why),),
            hint="Hand over a smaller file, or a part of it under a name of its own.",
        )
        self.facts = {"reason": "cache_refused"}


class _BridgeError(ToolError):
    reason: ClassVar[str]

    def __init__(self, message: str, *, hint: str, retryable: bool = False) -> None:
        super().__init__(message, hint=hint, retryable=retryable, facts={"reason": self.reason})


class SamplingUnsupportedError(_BridgeError):
    """The client cannot be asked; the hint names what else can be done."""

    reason = "sampling_unsupported"

    def __init__(self, wanted: str, *, hint: str, for_author: str) -> None:
        """`hint` is for the agent that called; `for_author`, for who wrote the server, is in `data()` and the log."""
        super().__init__(f"This client cannot be asked for {wanted}: it does not support MCP sampling.", hint=hint)
        self.for_author = for_author
        self.facts = {**self.facts, "for_author": for_author}


class SamplingTimeoutError(_BridgeError):
    """The client was asked, and did not answer in time."""

    reason = "sampling_timeout"

    def __init__(self, wanted: str, seconds: float) -> None:
        super().__init__(
            f"The client did not hand over {wanted} within {seconds:g} seconds.",
            hint="Try again, or have the agent push the file with guide_cache_file.",
            retryable=True,
        )


class SamplingRefusedError(_BridgeError):
    """The client was asked, and said no, or could not."""

    reason = "sampling_refused"

    def __init__(self, wanted: str, why: str) -> None:
        super().__init__(
            f"The client did not hand over {wanted}: {why.rstrip('.')}.",
            hint="Its user may have said no. The agent can push the file with guide_cache_file.",
        )


class ResourceRefusedError(_BridgeError):
    """The server beside the client, whose resources are read, did not give one."""

    reason = "resource_refused"

    def __init__(self, wanted: str, why: str) -> None:
        super().__init__(
            f"The server beside the client did not give {wanted}: {why.rstrip('.')}.",
            hint="Look at what that server exposes. The agent can push the file with guide_cache_file.",
        )


class BadAnswerError(_BridgeError):
    """The client answered something else than what it was asked for."""

    reason = "bad_answer"

    def __init__(self, wanted: str, why: str) -> None:
        super().__init__(
            f"The client's answer about {wanted} cannot be used: {why}.",
            hint="Nothing of it was taken. Try again, or have the agent push the file with guide_cache_file.",
            retryable=True,
        )
        self.why = why


class MissingFileError(_BridgeError):
    """There is no such file or folder at the client's."""

    reason = "not_found"

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{printable_text(path)} does not exist at the client's.", hint="List the folder to see what is there."
        )


class UnreadableFileError(_BridgeError):
    """There is one, and the client may not read it."""

    reason = "permission_denied"

    def __init__(self, path: str) -> None:
        super().__init__(
            f"The client may not read {printable_text(path)}.", hint="Its user can change who may read the file."
        )
