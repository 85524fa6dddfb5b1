"""The report of a run for people: what each agent did, the result and the cost."""

from __future__ import annotations

from toolyard.team.report.writing import HTML_NAME, MARKDOWN_NAME, write_report

__all__ = ["HTML_NAME", "MARKDOWN_NAME", "write_report"]
