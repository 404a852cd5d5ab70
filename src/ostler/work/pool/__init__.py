"""The pool: which turns may run now, for all ostler processes of a machine."""
