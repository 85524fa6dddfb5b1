"""`toolyard mcp`."""
