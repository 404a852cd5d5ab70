"""The user's own settings of ostler, with one ACP agent in them."""

import json
from collections.abc import Sequence
from pathlib import Path


def named(home: Path, name: str, argv: Sequence[str], loose: bool = False) -> None:
    config = home / ".config" / "ostler" / "config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    # JSON's lists and strings are TOML's.
    accepted = f"loose = {json.dumps([name])}\n" if loose else ""
    config.write_text(f"{accepted}[acp]\n{name} = {json.dumps(list(argv))}\n")
