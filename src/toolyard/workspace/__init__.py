"""What a workspace remembers."""
