"""Finds and masks secrets in text, including private keys over several lines."""
