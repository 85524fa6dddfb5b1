"""Where other programs keep their MCP servers, and how an entry of ours is put there and taken away again."""
