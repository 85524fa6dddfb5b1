"""Configuration sections of custom tools: which are available, and what the built-in ones may access."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, SecretStr, Tag, model_validator

from toolyard.config.section import Seconds, Section, Size, expected_error

_SOURCE_TAG = "<custom tools>"
_NAME_TAG = "<custom tool>"


class CustomToolSource(Section):
    """Typed functions of a Python file or module, as tools of one group."""

    group: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=64)]
    path: str | None = None
    """A Python file, relative to the configuration's folder."""
    module: str | None = None
    """A module that can be imported."""
    tools: tuple[str, ...] = ()
    """The functions to use; all public ones if omitted."""
    timeout: Seconds | None = None
    read_only: bool = False
    """Whether the tools change nothing; read-only permission modes rely on this."""

    @model_validator(mode="after")
    def _check_one_source(self) -> Self:
        if (self.path is None) == (self.module is None):
            raise expected_error("either `path` (a Python file) or `module`")
        return self


def _source_tag(value: Any) -> str:
    return _SOURCE_TAG if isinstance(value, (Mapping, CustomToolSource)) else _NAME_TAG


def _as_tuple(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


CustomToolNames = Annotated[
    tuple[
        Annotated[
            Annotated[CustomToolSource, Tag(_SOURCE_TAG)] | Annotated[str, Tag(_NAME_TAG)],
            Discriminator(_source_tag),
        ],
        ...,
    ],
    BeforeValidator(_as_tuple),
]
"""Built-in names (`web.screenshot`, `web.*`), functions (`package.module:function`), groups of a file or module."""


class Browser(Section):
    """The browser of the `web` tools. It may only access the hosts that are listed."""

    executable: str | None = None
    """The path of Chromium; searched on PATH if omitted."""
    allowed_hosts: tuple[str, ...] | None = None
    """As `code_execution.allowed_hosts`, which applies if this is omitted."""
    sandbox: bool = True
    """Whether Chromium's own sandbox is used. It is not available as root."""
    seconds: Seconds = 30.0
    """Time limit for a page."""
    width: Size = 1280
    height: Size = 800


class Vision(Section):
    """The model behind `multimodal.vision_understanding`."""

    provider: Literal["openai", "gemini"] | None = None
    """`openai` means any server with its chat completions API. If omitted, the API key that is set decides."""
    model: str | None = None
    base_url: str | None = None
    api_key: SecretStr | None = None
    seconds: Seconds = 60.0
