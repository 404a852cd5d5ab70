"""Emulated screens: processes that run the emulator, and the side of them that the rest of ostler sees."""
