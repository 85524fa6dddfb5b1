"""Stack traces and compilers' errors in a text, as frames, and where those lie in the workspace."""

from toolyard.assistant.traces.model import Frame, Language, Trace
from toolyard.assistant.traces.parser import parse
from toolyard.assistant.traces.source_context import Located, located

__all__ = ["Frame", "Language", "Located", "Trace", "located", "parse"]
