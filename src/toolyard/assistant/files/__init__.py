"""From the `files` of a request to text that a model is sent.

`finding` reads what may be sent, `fitting` gives room to it, `outlines` shortens what does not fit, `imports` tells
which file uses which. This file imports nothing: the process that parses (`syntax.child`) starts through it.
"""
