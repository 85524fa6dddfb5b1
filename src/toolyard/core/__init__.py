"""The words everything else is written in: errors, actions, calls, events, limits. Imports nothing of ours."""
