"""`make bench`: measurements of bridge."""
