"""`make bench`: measurements of sandbox."""
