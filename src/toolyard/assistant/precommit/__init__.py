"""Precommit's own work: git is run, secrets are looked for, and a verdict follows, with no model at all."""

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
