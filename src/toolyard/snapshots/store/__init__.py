"""The on-disk format of the store: objects, packs, the index, and their maintenance."""
