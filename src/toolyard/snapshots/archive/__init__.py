"""Reads a live folder into a snapshot."""
