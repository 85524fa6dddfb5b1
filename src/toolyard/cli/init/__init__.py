"""`toolyard init`."""
