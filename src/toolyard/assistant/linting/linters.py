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
from toolyard.assistant.linting.parsers import parse_cppcheck, parse_go_vet, parse_ruff, parse_shellcheck
from toolyard.assistant.sandboxed_commands import ProgramResult


@dataclass(frozen=True, slots=True)
class Linter:
    name: str
    suffixes: tuple[str, ...]
    command: tuple[str, ...]
    """What it looks at comes after it."""
    parse_output: Callable[[ProgramResult], Iterator[LintFinding]]
    success_codes: frozenset[int] = frozenset({0, 1})
    """What it exits with when it did its work."""
    otherwise: tuple[str, ...] = ()
    """Options for a second try, where the project's configuration is what it cannot work with."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    module_file: str = ""
    """It looks at whole folders, from the one with this file in or above them."""


LINTERS: Final = (
    Linter(
        "ruff",
        (".py", ".pyi"),
        ("ruff", "check", "--output-format=json-lines", "--no-cache", "--no-fix", "--force-exclude", "--quiet"),
        parse_ruff,
        otherwise=("--isolated",),
    ),
    Linter("shellcheck", (".sh", ".bash"), ("shellcheck", "--format=gcc", "--color=never"), parse_shellcheck),
    Linter(
        "cppcheck",
        (".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp"),
        (
            *("cppcheck", "--quiet", "--enable=warning,performance,portability", "--inline-suppr", "--max-configs=4"),
            "--template={file}\t{line}\t{severity}\t{id}\t{message}",
        ),
        parse_cppcheck,
    ),
    Linter(
        "go vet",
        (".go",),
        ("go", "vet"),
        parse_go_vet,
        success_codes=frozenset({0, 1, 2}),
        variables={
            "GOCACHE": "/tmp/go-cache",  # noqa: S108 - the sandbox's own, in memory
            "GOFLAGS": "",
            "GOPROXY": "off",
            "GOTOOLCHAIN": "local",
            "CGO_ENABLED": "0",
        },
        module_file="go.mod",
    ),
)
