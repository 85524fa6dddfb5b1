"""The command line. Each command lives in a module of its own, imported only when it is used."""
