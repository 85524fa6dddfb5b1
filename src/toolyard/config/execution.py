"""The `code_execution` section: where commands and code run, and what they may use and access there.

Limits have a minimum: below it the sandbox's own processes would fail with unhelpful errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from toolyard.config.section import REFUSED, Seconds, Section, Size, expected_error
from toolyard.core.limits import DEFAULT_RUN_LIMITS, MIB, RunLimits

_MIN_MEMORY = 64 * MIB
_MIN_PROCESSES = 10
_MIN_OPEN_FILES = 32
_MAX_NAME_CHARS = 100


def _at_least(least: int, spelled: str) -> Callable[[int], int]:
    def check(value: int) -> int:
        if value < least:
            message = "{value} is too low: the sandbox itself needs at least {spelled}."
            raise PydanticCustomError(REFUSED, message, {"value": value, "spelled": spelled})
        return value

    return check


MemoryBytes = Annotated[Size, AfterValidator(_at_least(_MIN_MEMORY, f"{_MIN_MEMORY} (64 MiB)"))]
ProcessCount = Annotated[Size, AfterValidator(_at_least(_MIN_PROCESSES, str(_MIN_PROCESSES)))]
OpenFileCount = Annotated[Size, AfterValidator(_at_least(_MIN_OPEN_FILES, str(_MIN_OPEN_FILES)))]


def _check_variable_name(name: str) -> str:
    if not name or len(name) > _MAX_NAME_CHARS or any(char in "=\0" or char.isspace() for char in name):
        raise expected_error("a variable name without blanks and `=`")
    return _check_text(name)


def _check_text(value: str) -> str:
    if "\0" in value:
        raise expected_error("text without a NUL character")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise expected_error("valid Unicode") from None
    return value


EnvironmentVariables = Mapping[
    Annotated[str, AfterValidator(_check_variable_name)], Annotated[str, AfterValidator(_check_text)]
]


class Docker(Section):
    """The container of `mode: docker`."""

    image: str | None = None
    network: str = "none"


class RunLimitsSection(Section):
    """Resource limits of one run of code or of a command."""

    # The fields are those of `core.limits.RunLimits`; a test keeps the two in step.
    seconds: Seconds = DEFAULT_RUN_LIMITS.seconds
    most_seconds: Seconds = DEFAULT_RUN_LIMITS.most_seconds
    cpu_seconds: Size = DEFAULT_RUN_LIMITS.cpu_seconds
    memory_bytes: MemoryBytes = DEFAULT_RUN_LIMITS.memory_bytes
    processes: ProcessCount = DEFAULT_RUN_LIMITS.processes
    open_files: OpenFileCount = DEFAULT_RUN_LIMITS.open_files
    file_bytes: Size = DEFAULT_RUN_LIMITS.file_bytes
    output_bytes: Size = DEFAULT_RUN_LIMITS.output_bytes
    disk_bytes: Size = DEFAULT_RUN_LIMITS.disk_bytes
    temporary_bytes: Size = DEFAULT_RUN_LIMITS.temporary_bytes

    @model_validator(mode="after")
    def _check_seconds(self) -> Self:
        if self.seconds > self.most_seconds and "seconds" in self.model_fields_set:
            message = "`seconds` ({seconds}) is more than `most_seconds` ({most}), the maximum duration of a run."
            context = {"seconds": f"{self.seconds:g}", "most": f"{self.most_seconds:g}"}
            raise PydanticCustomError(REFUSED, message, context)
        return self

    def to_limits(self) -> RunLimits:
        # A configuration that only lowers `most_seconds` also lowers the default `seconds`.
        return replace(RunLimits(**self.model_dump()), seconds=min(self.seconds, self.most_seconds))

    def exceeds_defaults(self) -> bool:
        usual = RunLimitsSection()
        return any(getattr(self, name) > getattr(usual, name) for name in type(self).model_fields)


class CodeExecution(Section):
    """Where commands and code run, and what they may use and access there."""

    enabled: bool = True
    mode: Literal["bubblewrap", "docker", "none"] = "bubblewrap"
    minimum: Literal["bubblewrap", "namespaces", "landlock"] = "namespaces"
    """The weakest sandbox that `mode: bubblewrap` may fall back to; without it, commands and code are refused."""
    docker: Docker = Docker()
    allowed_hosts: tuple[str, ...] = ()
    """Hosts (`packages.example.com`, `*.example.org`, `localhost:8080`) that code may access over HTTP and HTTPS."""
    env: EnvironmentVariables = Field(default_factory=dict, repr=False)
    """Variables for commands and code; no other variable of the host's environment is visible to them."""
    limits: RunLimitsSection = RunLimitsSection()
    allow_destructive: bool = False
    """Switches off the approval of commands that would delete or overwrite a whole root, home, device, mount point,
    context path, workspace or repository."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    @property
    def names_sandbox(self) -> bool:
        """Whether the configuration requests a sandbox explicitly instead of using the defaults."""
        return self.mode != "none" and not self.model_fields_set.isdisjoint({"mode", "minimum"})
