"""Gemini CLI and Claude Code side by side, each with the server of its own agent."""

from tests.e2e.claude.conftest import anthropic, claude
from tests.e2e.gemini.conftest import gemini, gemini_model

__all__ = ["anthropic", "claude", "gemini", "gemini_model"]
