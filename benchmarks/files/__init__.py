"""`make bench`: measurements of files."""
