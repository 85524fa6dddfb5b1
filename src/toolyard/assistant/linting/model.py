"""Findings of linters, rendered for a model or converted to findings of a review."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from toolyard.assistant.findings import Finding, Severity, sort_and_deduplicate

Level = Literal["error", "warning", "note"]

RENDERED_CHARS = 20_000
_SEVERITIES: Final[Mapping[Level, Severity]] = {"error": "high", "warning": "medium", "note": "low"}
_CATEGORY = "lint"


@dataclass(frozen=True, slots=True)
class LintFinding:
    """`path` is spelled as in results; `code` is the linter's name of the rule, empty if it has none."""

    tool: str
    path: str
    line: int
    code: str
    text: str
    level: Level = "warning"


@dataclass(frozen=True, slots=True)
class LintEvidence:
    """`ran` are the linters that did their work; `notes` report those that could not, and what was left out."""

    findings: tuple[LintFinding, ...] = ()
    ran: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def render(self) -> str:
        """Renders one line per finding; empty if no linter ran."""
        if not self.ran:
            return ""
        head = f"{', '.join(self.ran)}: {len(self.findings):,} findings"
        lines = [head]
        room = RENDERED_CHARS - len(head)
        for number, each in enumerate(self.findings):
            line = f"{each.path}:{each.line}: {each.level}: {each.text} [{_rule_name(each)}]"
            room -= len(line) + 1
            if room < 0:
                lines.append(f"({len(self.findings) - number:,} more)")
                break
            lines.append(line)
        return "\n".join(lines)

    def as_findings(self) -> tuple[Finding, ...]:
        """Returns the findings in the form of a review."""
        return sort_and_deduplicate(
            Finding(_SEVERITIES[each.level], _CATEGORY, each.path, each.line, f"{each.text} ({_rule_name(each)})")
            for each in self.findings
        )


def _rule_name(finding: LintFinding) -> str:
    return f"{finding.tool} {finding.code}".strip()
