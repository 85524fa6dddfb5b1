"""The host's end of a sandbox's supervisor process."""
