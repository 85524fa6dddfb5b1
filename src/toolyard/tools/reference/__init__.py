"""The reference filesystem server's tools."""
