"""The host side of a running sandbox process and the frames exchanged with its supervisor."""
