"""`python -m ostler`."""

from ostler.cli import main

main()
