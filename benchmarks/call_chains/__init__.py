"""Which files one request passes through: `python -m benchmarks.call_chains`."""
