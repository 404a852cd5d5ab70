"""Agents' own screens in terminals of their sessions: watched, typed into, and kept for many turns."""
