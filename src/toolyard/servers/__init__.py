"""Upstream MCP servers: connecting when called, sharing one connection, closing when idle."""
