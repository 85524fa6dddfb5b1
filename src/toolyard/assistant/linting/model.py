"""What linters found, for a model to read and as findings of a review."""

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
    """`path` is as results show paths; `code` is the linter's own name of the rule, "" where it has none."""

    tool: str
    path: str
    line: int
    code: str
    text: str
    level: Level = "warning"


@dataclass(frozen=True, slots=True)
class LintEvidence:
    """`ran` are the linters that did their work; `notes` tell of those that could not, and of what was left out."""

    findings: tuple[LintFinding, ...] = ()
    ran: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def render(self) -> str:
        """One line for each finding; "" where no linter ran."""
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
        """The same as findings of a review."""
        return sort_and_deduplicate(
            Finding(_SEVERITIES[each.level], _CATEGORY, each.path, each.line, f"{each.text} ({_rule_name(each)})")
            for each in self.findings
        )


def _rule_name(finding: LintFinding) -> str:
    return f"{finding.tool} {finding.code}".strip()
