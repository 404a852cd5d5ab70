"""Random JSON, and records with something wrong in them. The same seed gives the same values."""

import marshal
import random
from typing import Any

WORDS = ("type", "kind", "id", "text", "result", "error", "message", "content", "session_id", "usage", "delta", "item")
SCALARS: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    2**63,
    10**30,
    0.5,
    1e308,
    "",
    "x",
    "\x00",
    "\x1b[31m",
    "ü\ud7ff\uffff",
    "a\nb",
    "1",
)


def value(rng: random.Random, depth: int = 3) -> Any:
    """Any JSON value."""
    choice = rng.random()
    if depth <= 0 or choice < 0.6:
        return rng.choice(SCALARS)
    if choice < 0.8:
        return [value(rng, depth - 1) for _ in range(rng.randint(0, 3))]
    return record(rng, depth - 1)


def record(rng: random.Random, depth: int = 3) -> dict[str, Any]:
    """A JSON object whose keys are those that agents use, or not."""
    keys = [rng.choice((*WORDS, "zz", "")) for _ in range(rng.randint(0, 5))]
    return {key: value(rng, depth) for key in keys}


def copied(value: Any) -> Any:
    """A copy of a JSON value, for a reader that may change it: ten times quicker than `copy.deepcopy`."""
    return marshal.loads(marshal.dumps(value))


def damaged(rng: random.Random, whole: dict[str, Any]) -> dict[str, Any]:
    """A copy in which one to three values are replaced, lost, or moved under another key."""
    result: dict[str, Any] = copied(whole)
    for _ in range(rng.randint(1, 3)):
        holder: Any = result
        while True:
            keys: list[Any] = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
            if not keys:
                break
            key = rng.choice(keys)
            if isinstance(holder[key], dict | list) and rng.random() < 0.7:
                holder = holder[key]
                continue
            _damage(rng, holder, key)
            break
    return result


def _damage(rng: random.Random, holder: Any, key: Any) -> None:
    match rng.randint(0, 3):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder["zz"] = holder.pop(key)
        case 2:
            holder[key] = [holder[key]]
        case _:
            holder[key] = value(rng)
