"""`toolyard snapshot`."""
