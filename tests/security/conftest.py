from work.conftest import stable

__all__ = ["stable"]
