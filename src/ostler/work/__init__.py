"""The verbs: turns, sessions, owners."""

from ostler.work.ostler import Ostler
from ostler.work.sessions import LiveSession

__all__ = ["LiveSession", "Ostler"]
