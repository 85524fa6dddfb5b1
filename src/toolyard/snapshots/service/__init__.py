"""Snapshots that are taken by themselves, and what agents may do with them."""
