"""The command `ostler`, and `python -m ostler`."""

import gc

from ostler.late import load_late


def main() -> None:
    gc.set_threshold(50_000)  # a tenth of the start went into looking for garbage among fresh imports
    load_late()
    from ostler.cli import main

    main()


if __name__ == "__main__":
    main()
