"""Whether a command runs as a program of its own, so that it may end the process, or inside somebody else's."""

from __future__ import annotations

OWN_PROCESS = object()
"""What the entry point hands to its commands; whoever calls one from Python hands over nothing."""
