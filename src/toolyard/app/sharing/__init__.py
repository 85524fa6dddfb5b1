"""Sharing between the agents of a layout, composed: publishing after snapshots, news of peers, merging."""
