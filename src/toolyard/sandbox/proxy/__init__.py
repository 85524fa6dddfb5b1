"""The HTTP proxy through which sandboxed code reaches the allowed hosts."""
