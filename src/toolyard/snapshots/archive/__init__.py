"""Reads a live folder into snapshot objects."""
