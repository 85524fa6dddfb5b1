"""`toolyard tools`."""
