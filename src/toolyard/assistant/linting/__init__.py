"""What linters say about files: evidence for a review, and all there is of one where no model is."""

from toolyard.assistant.linting.model import Evidence, Level, LintFinding
from toolyard.assistant.linting.runner import lint

__all__ = ["Evidence", "Level", "LintFinding", "lint"]
