"""`toolyard memory`."""
