"""Dialogs at work: one process for many turns, its asks, and what it has ostler do for it."""
