"""Where a program outside hears of file operations: `toolyard.webhook`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, SecretStr

from toolyard.config.section import Section


class WebhookSection(Section):
    """A URL that gets each file operation, and each end of a background command, as JSON."""

    url: Annotated[str, Field(min_length=1, max_length=2000)]
    """`https` to a public host, or `http` to this machine."""
    token: SecretStr | None = None
    """Sent as a bearer token. Write it as `${VAR}`."""
    reads: bool = False
    """Whether operations that only read are sent too."""
