"""Secrets in text: the scanner that finds them, private keys over several lines, and masking in place."""
