"""`toolyard skill`."""
