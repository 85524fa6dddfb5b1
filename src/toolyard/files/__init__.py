"""File access through directory handles only. A path is never resolved first and opened later."""
