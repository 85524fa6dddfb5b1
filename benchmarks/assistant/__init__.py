"""`make bench`: measurements of assistant."""
