"""The supported linters: their files, their options, and the parsers of their output.

No linter may change files or write a cache. It uses the project's own configuration, so it runs
only in a sandbox (`assistant.sandboxed_commands`). Linters whose configuration is a program, such as ESLint, are
excluded: it could print any file of the workspace as a finding, and findings are sent to a model.
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
    """A linter: the files that it checks, its command, and the parser of its output."""

    name: str
    suffixes: tuple[str, ...]
    command: tuple[str, ...]
    """The files or folders to check are appended."""
    parse_output: Callable[[ProgramResult], Iterator[LintFinding]]
    success_codes: frozenset[int] = frozenset({0, 1})
    """Exit codes of a linter that did its work."""
    otherwise: tuple[str, ...] = ()
    """Options for a second attempt, if the project's configuration is unusable."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    module_file: str = ""
    """If set, the linter checks whole folders, starting at the nearest one upwards that has this file."""


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
            "GOCACHE": "/tmp/go-cache",  # noqa: S108 - the sandbox's own /tmp, in memory
            "GOFLAGS": "",
            "GOPROXY": "off",
            "GOTOOLCHAIN": "local",
            "CGO_ENABLED": "0",
        },
        module_file="go.mod",
    ),
)
