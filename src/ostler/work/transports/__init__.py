"""How a turn is run: as a process, in a dialog, in a terminal. `choose.py` knows them all and says which."""
