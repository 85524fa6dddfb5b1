"""Static analysis of command text with a real bash parser.

The results are advisory: they decide when to ask, describe effects and refuse hopeless commands early. Isolation is
the sandbox's job.
"""

from toolyard.policy.shell.analysis import Analysis, Piece, analyse
from toolyard.policy.shell.ast import ParseFailure
from toolyard.policy.shell.effects import CommandEffect, ObservedEffect
from toolyard.policy.shell.grammar_guards import MAX_COMMAND_CHARS
from toolyard.policy.shell.parser import parse_script

__all__ = [
    "MAX_COMMAND_CHARS",
    "Analysis",
    "CommandEffect",
    "ObservedEffect",
    "ParseFailure",
    "Piece",
    "analyse",
    "parse_script",
]
