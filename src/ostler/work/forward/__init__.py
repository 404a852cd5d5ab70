"""Telling others: what happens in turns is posted to a backend, and people are notified. Durable, bounded, retried."""
