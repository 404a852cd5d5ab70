"""The server: HTTP, SSE and WebSocket behind one gateway, and the page."""
