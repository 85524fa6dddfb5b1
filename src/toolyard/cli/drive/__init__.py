"""`toolyard drive`."""
