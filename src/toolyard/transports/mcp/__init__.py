"""The MCP surface, over stdio and streamable HTTP, in both protocol eras."""
