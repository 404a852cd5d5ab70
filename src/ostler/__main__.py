"""The command `ostler`, and `python -m ostler`."""

import gc

from ostler.late import load_late


def main() -> None:
    # A tenth of the start went into looking for garbage among fresh imports: no start makes as many objects.
    gc.set_threshold(100_000)
    load_late()
    from ostler.cli import main

    main()


if __name__ == "__main__":
    main()
