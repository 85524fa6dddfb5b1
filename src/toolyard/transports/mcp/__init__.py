"""The MCP server over stdio and streamable HTTP, for both protocol generations."""
