"""The folders of a workspace, the agents that work in it, and the detection of tools that touch files."""
