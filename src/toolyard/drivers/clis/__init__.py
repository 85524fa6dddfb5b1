"""One driver for each agent CLI."""
