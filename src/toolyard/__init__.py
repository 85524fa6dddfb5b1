"""Toolyard: one workspace for every agent."""

__version__ = "0.1.0"
