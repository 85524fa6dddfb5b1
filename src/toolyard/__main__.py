"""`python -m toolyard` is the `toolyard` command."""

from toolyard.cli.main import main

main()
