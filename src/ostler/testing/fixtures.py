"""pytest fixtures that ship with ostler."""
