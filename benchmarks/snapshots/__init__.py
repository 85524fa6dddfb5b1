"""`make bench`: measurements of snapshots."""
