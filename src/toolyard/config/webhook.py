"""The `toolyard.webhook` section: a URL that is notified of file operations."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, SecretStr

from toolyard.config.section import Section


class WebhookSection(Section):
    """A URL that receives each file operation, and the end of each background command, as JSON."""

    url: Annotated[str, Field(min_length=1, max_length=2000)]
    """`https` to a public host, or `http` to this machine."""
    token: SecretStr | None = None
    """Sent as a bearer token. Write it as `${VAR}`."""
    reads: bool = False
    """Whether read operations are sent too."""
