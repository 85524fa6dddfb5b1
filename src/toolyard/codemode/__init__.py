"""Code mode: tools as typed Python files, found by search, called from the sandbox through the broker."""
