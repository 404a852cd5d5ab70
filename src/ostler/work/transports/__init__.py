"""How a turn is run: as a process, in a dialog, in a terminal. `choose.py` says which, `resources.py` makes them."""
