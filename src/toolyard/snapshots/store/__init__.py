"""Objects, packs and the index of a snapshot store on disk."""
