"""The checks of precommit: runs git, scans for secrets, and decides on a verdict without a model."""

from toolyard.assistant.precommit.diff_budget import FittedDiff
from toolyard.assistant.precommit.findings import ChangeStatus, Check, CheckDetail, CheckOutcome, FileChange
from toolyard.assistant.precommit.inspection import Inspection, Verdict, inspect_changes

__all__ = [
    "ChangeStatus",
    "Check",
    "CheckDetail",
    "CheckOutcome",
    "FileChange",
    "FittedDiff",
    "Inspection",
    "Verdict",
    "inspect_changes",
]
