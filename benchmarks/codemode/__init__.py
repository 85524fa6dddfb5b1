"""`make bench`: measurements of codemode."""
