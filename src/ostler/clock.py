"""The time, as all of ostler reads it: one place, so that a test can turn it (`ostler.testing.Clock`).

The warden and the screen process are programs of their own and keep the time by themselves.
"""

import time

_ahead = 0.0  # seconds by which a test has turned the clock; 0 in every real run


def now() -> float:
    """Seconds since the epoch: for what is kept and shown. It jumps when the machine's clock is set."""
    return time.time() + _ahead


def monotonic() -> float:
    """Seconds that only grow: for limits and durations."""
    return time.monotonic() + _ahead


def turn(seconds: float) -> None:
    """Sets both ahead (below zero: back). For tests alone."""
    global _ahead
    _ahead += seconds
