"""What survives a crash: the SQLite store, private files, and redaction before anything is kept."""

from ostler.store.redact import KnownSecrets, Masker, Redactor
from ostler.store.sqlite import Store

__all__ = ["KnownSecrets", "Masker", "Redactor", "Store"]
