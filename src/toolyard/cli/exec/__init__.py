"""`toolyard exec`."""
