"""What a command's text shows of what it will do, by a real parse of bash.

Advice for asking, for naming effects and for refusing early. Never the wall: that is the sandbox.
"""

from toolyard.policy.analysis.analyse import Analysis, Piece, analyse
from toolyard.policy.analysis.effects import CommandEffect, Seen
from toolyard.policy.analysis.parse import parse
from toolyard.policy.analysis.shape import MAX_COMMAND_CHARS, ParseFailure

__all__ = ["MAX_COMMAND_CHARS", "Analysis", "CommandEffect", "ParseFailure", "Piece", "Seen", "analyse", "parse"]
