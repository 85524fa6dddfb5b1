"""Precommit's own work: git is run, secrets are looked for, and a verdict follows, with no model at all."""

from toolyard.assistant.precommit.diff_budget import Fitted
from toolyard.assistant.precommit.findings import Change, Check, Detail, Outcome, Status
from toolyard.assistant.precommit.inspection import Inspection, Verdict, inspect

__all__ = ["Change", "Check", "Detail", "Fitted", "Inspection", "Outcome", "Status", "Verdict", "inspect"]
