"""Shared by several commands: options, workspace lookup, prompts, signals, terminal text."""
