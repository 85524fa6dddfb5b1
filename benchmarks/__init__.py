"""Toolyard beside its peers: measured in one run, in interleaved rounds, as medians and ratios."""
