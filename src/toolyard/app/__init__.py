"""The composition root and dispatch: the one way any tool is run."""
