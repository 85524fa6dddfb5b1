"""Turns the `files` argument of a request into text for a model.

`lookup` reads the files that may be sent, `context_budget` fits them into a token budget, `outlines` shortens what
does not fit, and `import_graph` shows how they are connected. This file imports nothing, because the parser process
(`syntax.parser_process`) starts through it.
"""
