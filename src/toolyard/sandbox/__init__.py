"""Processes under limits: the sandbox that commands and code run in.

`spec` is the interface; each kind of sandbox has a file of its own; `process` is the host's end of the warden that all of
them start inside; `choose_sandbox` finds out which of them stand on this machine.
"""
