"""The verbs: turns, sessions, owners."""

from ostler.work.ostler import Ostler
from ostler.work.sessions.live_session import LiveSession

__all__ = ["LiveSession", "Ostler"]
