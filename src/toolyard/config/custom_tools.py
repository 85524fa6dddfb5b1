"""Custom tools in the configuration: which are available, and what ours may reach."""

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
    """A Python file, from the configuration's folder on."""
    module: str | None = None
    """A module that can be imported."""
    tools: tuple[str, ...] = ()
    """Which of its functions; all public ones when left out."""
    timeout: Seconds | None = None
    read_only: bool = False
    """Whether they change nothing, which permission modes that only read go by."""

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
"""Names of ours (`web.screenshot`, `web.*`), functions (`package.module:function`) and groups of a file or module."""


class Browser(Section):
    """The browser behind the `web` tools. What it may reach is denied unless it is listed."""

    executable: str | None = None
    """Where Chromium is; found on the path when left out."""
    allowed_hosts: tuple[str, ...] | None = None
    """As in `code_execution.allowed_hosts`, which counts when this is left out."""
    sandbox: bool = True
    """Chromium's own sandbox. It cannot be had as root."""
    seconds: Seconds = 30.0
    """How long a page may take."""
    width: Size = 1280
    height: Size = 800


class Vision(Section):
    """The model behind `multimodal.vision_understanding`."""

    provider: Literal["openai", "gemini"] | None = None
    """`openai` stands for everything that speaks its chat completions. Left out, the key that is set decides."""
    model: str | None = None
    base_url: str | None = None
    api_key: SecretStr | None = None
    seconds: Seconds = 60.0
