"""`toolyard run --check`: a dry run of a team configuration."""
