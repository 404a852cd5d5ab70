"""ostler drives every coding agent through one API."""
