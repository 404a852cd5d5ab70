"""What a turn changed in its folder."""
