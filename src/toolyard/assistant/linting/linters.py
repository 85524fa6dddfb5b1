"""The linters we know: for which files, with which options, and how their answers are read.

Each is told neither to change anything nor to keep a cache. Configuration is the project's own, which is why they run
only behind walls (`assistant.programs`). Those whose configuration is a program, such as ESLint, are not here: it
could print any file of the workspace as if that were a finding, and findings are sent to a model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from toolyard.assistant.linting.model import LintFinding
from toolyard.assistant.linting.parsers import read_cppcheck, read_ruff, read_shellcheck, read_vet
from toolyard.assistant.sandboxed_commands import Ran


@dataclass(frozen=True, slots=True)
class Linter:
    name: str
    endings: tuple[str, ...]
    command: tuple[str, ...]
    """What it looks at comes after it."""
    read: Callable[[Ran], Iterator[LintFinding]]
    done: frozenset[int] = frozenset({0, 1})
    """What it exits with when it did its work."""
    otherwise: tuple[str, ...] = ()
    """Options for a second try, where the project's configuration is what it cannot work with."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    module: str = ""
    """It looks at whole folders, from the one with this file in or above them."""


LINTERS: Final = (
    Linter(
        "ruff",
        (".py", ".pyi"),
        ("ruff", "check", "--output-format=json-lines", "--no-cache", "--no-fix", "--force-exclude", "--quiet"),
        read_ruff,
        otherwise=("--isolated",),
    ),
    Linter("shellcheck", (".sh", ".bash"), ("shellcheck", "--format=gcc", "--color=never"), read_shellcheck),
    Linter(
        "cppcheck",
        (".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp"),
        (
            *("cppcheck", "--quiet", "--enable=warning,performance,portability", "--inline-suppr", "--max-configs=4"),
            "--template={file}\t{line}\t{severity}\t{id}\t{message}",
        ),
        read_cppcheck,
    ),
    Linter(
        "go vet",
        (".go",),
        ("go", "vet"),
        read_vet,
        done=frozenset({0, 1, 2}),
        variables={
            "GOCACHE": "/tmp/go-cache",  # noqa: S108 - the sandbox's own, in memory
            "GOFLAGS": "",
            "GOPROXY": "off",
            "GOTOOLCHAIN": "local",
            "CGO_ENABLED": "0",
        },
        module="go.mod",
    ),
)
