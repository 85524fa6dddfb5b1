"""The agent CLIs that can be driven, one file each. `registry.py` finds them by name."""
