"""What a command's text shows of what it will do, by a real parse of bash.

Advice for asking, for naming effects and for refusing early. Never the wall: that is the sandbox.
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
