"""Pipelines: durable graphs of turns and commands. DBOS keeps what was done, and is imported when one is run."""
