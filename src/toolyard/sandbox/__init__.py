"""Runs commands and code in isolated, limited processes.

`spec` is the interface and each backend implements one tier. All of them start the supervisor inside; `process` is
the host's end of it. `selection` chooses the strongest tier that works on this machine.
"""
