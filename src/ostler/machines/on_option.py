"""What `--on`, and `on` in a pipeline, says: the name of a machine, `any`, or labels with commas. Pure."""

from collections.abc import Collection, Mapping
from typing import Any

from ostler.errors import OstlerError, quoted
from ostler.machines.model import ANY


def placement_of(on: str, names: Collection[str]) -> dict[str, Any]:
    """The fields of a new session that say where it goes. `names`: of the machines that there are."""
    words = _words(on)
    return {"machine": words[0]} if len(words) == 1 and words[0] in (ANY, *names) else {"labels": words}


def check_known(on: str, labels: Mapping[str, Collection[str]]) -> None:
    """Raises unsupported where no machine is meant. `labels`: those of each machine, by its name."""
    if not labels:
        hint = "Start it with: ostler up --join URL"
        raise OstlerError("unsupported", "the server of this machine has not joined other machines", hint)
    words = _words(on)
    if "machine" in placement_of(on, labels) or any(set(words) <= set(has) for has in labels.values()):
        return
    there = ", ".join(f"{name} ({', '.join(has)})" if has else name for name, has in sorted(labels.items()))
    what = (
        f"is called {quoted(words[0])} or has this label" if len(words) == 1 else f"has the labels {', '.join(words)}"
    )
    raise OstlerError("unsupported", f"no machine that has joined {what}", f"Choose one of: {there}")


def no_machine_called(name: str, names: Collection[str]) -> OstlerError:
    """`names`: of the machines that there are."""
    hint = f"Known machines: {', '.join(names)}" if names else "No machine has joined yet: ostler up --join URL"
    return OstlerError("not_found", f"no machine is called {quoted(name[:100])}", hint)


def _words(on: str) -> list[str]:
    return [word.strip() for word in on.split(",") if word.strip()]
