"""Tells commands whether they run as their own program, and may end the process, or inside another Python program."""

from __future__ import annotations

OWN_PROCESS = object()
"""The click context object that the entry point sets; callers from Python do not set it."""
