"""Linux system calls that Python's standard library lacks, one module each. Imports nothing of ours."""
