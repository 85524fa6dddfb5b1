"""`toolyard run --check`: what a run would do."""
