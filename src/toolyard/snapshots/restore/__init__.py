"""Restores files of a snapshot into a folder."""
