"""What linters say about files: evidence for a review, and all there is of one where no model is."""

from toolyard.assistant.linting.model import Level, LintEvidence, LintFinding
from toolyard.assistant.linting.runner import lint

__all__ = ["Level", "LintEvidence", "LintFinding", "lint"]
