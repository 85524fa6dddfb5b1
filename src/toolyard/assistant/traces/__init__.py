"""Stack traces and compilers' errors in a text, as frames, and where those lie in the workspace."""

from toolyard.assistant.traces.locating import Located, located
from toolyard.assistant.traces.model import Frame, Language, Trace
from toolyard.assistant.traces.parsing import parse

__all__ = ["Frame", "Language", "Located", "Trace", "located", "parse"]
