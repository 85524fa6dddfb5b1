"""`toolyard doctor`."""
