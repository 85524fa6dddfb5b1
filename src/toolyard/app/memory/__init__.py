"""Memories as the command line and the tools reach them."""
