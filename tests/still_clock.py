"""A time that stands still until a test sets it ahead, for what is given its clock: exact, and only there."""


class StillClock:
    """Where the whole process is to have another time, `ostler.testing.Clock` turns it."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
