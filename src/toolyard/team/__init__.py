"""Team runs: several agents work on one task in rounds, vote, and produce one result."""
