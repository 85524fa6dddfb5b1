"""Runs every tool call: validates arguments, checks permissions, enforces deadlines, records one audit event."""
