"""Runs `python -m toolyard.testing.mock_model` under its former name."""

import runpy

runpy.run_module("toolyard.testing.mock_model", run_name="__main__")
