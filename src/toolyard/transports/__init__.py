"""Surfaces: they parse, authenticate and print. Whatever they are asked to do, dispatch does."""
