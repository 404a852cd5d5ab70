"""On which machine new work goes: by its name, its labels, the repository that it has, and the agents it has.

A pure function of what the machines tell. Where none fits, the error says of each machine why.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from ostler.errors import OstlerError, quoted
from ostler.machines.membership import SeenMachine
from ostler.machines.model import ANY, MachineFolder
from ostler.machines.remotes import plain_remote
from ostler.machines.run_index import IndexedRun


class Wanted(Struct, frozen=True, kw_only=True):
    """What new work needs. What is empty does not matter."""

    machine: str = ""  # its name or id, or ANY
    labels: tuple[str, ...] = ()  # it must have all of them
    repo: str = ""  # a folder of this repository: any way to write its remote
    agent: str = ""
    folder: str = ""  # a machine that has worked there is preferred: of others nobody knows whether they have it


class Placed(Struct, frozen=True, kw_only=True):
    """`folder` is that of the repository, else the wanted one."""

    machine: SeenMachine
    folder: str


class NoMachineFits(OstlerError):
    """`reasons` says of each machine why not."""

    def __init__(self, reasons: Mapping[str, str]) -> None:
        self.reasons = dict(reasons)
        why_not = "; ".join(f"{name}: {why}" for name, why in self.reasons.items()) or "there is none"
        super().__init__("unsupported", f"no machine fits ({why_not})", "See what they have: ostler machines")


def place(machines: Iterable[SeenMachine], wanted: Wanted, placed: Mapping[str, int] | None = None) -> Placed:
    """The machine that fits and has the least to do. Raises NoMachineFits, or bad_request for what is no remote.

    `placed`: what was placed on a machine, by id, since it last told of its load.
    """
    repo = plain_remote(wanted.repo) or _as_told(wanted.repo) if wanted.repo else ""
    machines = [seen for seen in machines if _is_meant(seen, wanted.machine)]
    if not machines and wanted.machine not in ("", ANY):
        raise NoMachineFits({wanted.machine: "there is no machine with that name"})
    reasons = {seen.id: _unfit(seen, wanted, repo) for seen in machines}
    fitting = [seen for seen in machines if not reasons[seen.id]]
    if not fitting:
        raise NoMachineFits({seen.name: reasons[seen.id] for seen in machines})
    best = min(fitting, key=lambda seen: _rank(seen, wanted, (placed or {}).get(seen.id, 0)))
    found = _folder_of(best, repo) if repo and not wanted.folder else None
    return Placed(machine=best, folder=found.path if found is not None else wanted.folder)


def unfit_for_run(seen: SeenMachine, run: IndexedRun) -> str:
    """Why a machine cannot have this run; "": it can, as far as others know. A name only says where it begins."""
    wants, facts = run.wants, seen.row.facts
    if run.machine is None and not _is_meant(seen, wants.machine):
        return f"the run is meant for {wants.machine}"
    for agent in wants.agents or ("",):
        why = _unfit(seen, Wanted(labels=wants.labels, agent=agent), wants.repo)
        if why:
            return why
    if facts.workflows != wants.version:
        return f"it runs workflow version {facts.workflows or '?'}, the run needs version {wants.version}"
    return ""


def best_for_run(machines: Iterable[SeenMachine]) -> SeenMachine:
    """Of those that fit: the one with the fewest turns for its processors."""
    return min(machines, key=lambda seen: _rank(seen, Wanted(), 0))


def _is_meant(seen: SeenMachine, name: str) -> bool:
    return name in ("", ANY, seen.name, seen.id)


def _as_told(repo: str) -> str:
    """`github.com/owner/name`, as machines tell it. Raises bad_request for a path."""
    host, slash, path = repo.strip("/").removesuffix(".git").partition("/")
    if repo.startswith(("/", ".", "~")) or not (host and slash and path):
        hint = "Write it as host/owner/name, or as the address that git knows"
        raise OstlerError("bad_request", f"{quoted(repo)} is not a remote repository", hint)
    return f"{host.lower()}/{path}"


def _unfit(seen: SeenMachine, wanted: Wanted, repo: str) -> str:
    """Why it cannot be this one; "": it can."""
    facts = seen.row.facts
    if seen.state != "live":
        return "it is draining and accepts no new work" if seen.state == "draining" else f"it is {seen.state}"
    missing = [label for label in wanted.labels if label not in facts.labels]
    if missing:
        return f"it has no label {', '.join(missing)}"
    agent = next((each for each in facts.agents if each.name == wanted.agent), None)
    if wanted.agent and agent is None:
        return f"{wanted.agent} is not installed" if facts.agents else "it has not reported its agents yet"
    if agent is not None and agent.login == "no":
        return f"{wanted.agent} is not logged in"
    return f"it has no folder of {repo}" if repo and _folder_of(seen, repo) is None else ""


def _folder_of(seen: SeenMachine, repo: str) -> MachineFolder | None:
    """The last used one comes first."""
    return next((folder for folder in seen.row.facts.folders if folder.remote == repo), None)


def _rank(seen: SeenMachine, wanted: Wanted, placed: int) -> tuple[bool, float, float, str]:
    """The best has the lowest: it knows the folder, has few turns for its processors, and little else to do."""
    facts = seen.row.facts
    known = any(folder.path == wanted.folder for folder in facts.folders)
    cpus = max(1, facts.load.cpus)
    turns = facts.load.running + facts.load.waiting + placed
    return (bool(wanted.folder) and not known, turns / cpus, facts.load.load / cpus, seen.name)
