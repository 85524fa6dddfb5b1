"""Agents at work together on one task, from a configuration: rounds, votes, one result."""
