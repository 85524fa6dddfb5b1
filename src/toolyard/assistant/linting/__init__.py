"""Runs linters on files: evidence for a review, or the whole review if there is no model."""

from toolyard.assistant.linting.model import Level, LintEvidence, LintFinding
from toolyard.assistant.linting.runner import lint

__all__ = ["Level", "LintEvidence", "LintFinding", "lint"]
