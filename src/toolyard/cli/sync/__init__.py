"""`toolyard sync`."""
