"""Terminals of sessions, wherever they live: in this process, in another one, or only on disk."""
