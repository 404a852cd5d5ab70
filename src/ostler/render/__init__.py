"""What is drawn for people: events and envelopes as lines, Markdown, the foot of a terminal."""
