"""The tools, one module per group."""
