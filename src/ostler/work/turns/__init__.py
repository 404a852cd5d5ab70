"""Turns: from their options to their envelope."""
