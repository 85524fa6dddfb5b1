"""`toolyard threads`."""
