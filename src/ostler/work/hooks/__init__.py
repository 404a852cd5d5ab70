"""Hooks of agents: where they call ostler, and what becomes of what they say."""
