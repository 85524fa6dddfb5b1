"""What a workspace holds beside files: who works in it and where, snapshots, memory, skills."""
