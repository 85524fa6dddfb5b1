"""Transports parse, authenticate and serialize. Dispatch does the work."""
