"""What a screen is: the bytes of a terminal, its recording, keys, what may leave it, and who may type."""
