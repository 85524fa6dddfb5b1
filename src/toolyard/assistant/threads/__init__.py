"""Stores of conversation threads, in SQLite or Redis, with their locks and rate limits."""
