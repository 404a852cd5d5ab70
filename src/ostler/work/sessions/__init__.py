"""Sessions: made, found, continued, closed, expired, imported."""
