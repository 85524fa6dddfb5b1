"""`toolyard run`."""
