"""The supported agent CLIs, one module each. `registry.py` finds them by name."""
