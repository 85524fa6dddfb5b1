"""Threads: conversations with a model that outlast the process, and how often each client may ask."""
