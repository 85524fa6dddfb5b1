"""Finds stack traces and compiler errors in a text, and locates their frames in the workspace."""

from toolyard.assistant.traces.model import Frame, Language, Trace
from toolyard.assistant.traces.parser import parse_traces
from toolyard.assistant.traces.source_context import LocatedFrame, locate_frames

__all__ = ["Frame", "Language", "LocatedFrame", "Trace", "locate_frames", "parse_traces"]
