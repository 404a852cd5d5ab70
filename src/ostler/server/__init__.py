"""The server: HTTP, SSE and WebSocket behind one door, and the page."""
