"""`make bench`: measurements of context."""
