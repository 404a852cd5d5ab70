"""`ostler mcp`: an MCP server by which one agent delegates work to others."""
