"""Where new work goes: a table of wishes, and what holds whatever machines there are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.errors import OstlerError
from ostler.machines.membership import SeenMachine
from ostler.machines.model import (
    MachineAgent,
    MachineFacts,
    MachineFolder,
    MachineLoad,
    MachineRow,
    MachineState,
)
from ostler.machines.placement import NoMachineFits, Placed, Wanted, best_for_run, place, unfit_for_run
from ostler.machines.run_index import IndexedRun, RunWants


def machine(
    name: str,
    *,
    state: MachineState = "live",
    labels: tuple[str, ...] = (),
    agents: tuple[str, ...] = ("script",),
    login: str = "yes",
    folders: dict[str, str] | None = None,
    turns: int = 0,
    cpus: int = 4,
    workflows: str = "1",
) -> SeenMachine:
    facts = MachineFacts(
        workflows=workflows,
        labels=labels,
        agents=tuple(MachineAgent(name=agent, login=login) for agent in agents),
        folders=tuple(MachineFolder(path=path, remote=remote) for path, remote in (folders or {}).items()),
        load=MachineLoad(running=turns, cpus=cpus),
    )
    row = MachineRow(
        id=f"id-{name}", epoch=1, name=name, url="", public_key=b"", beat=1, age=0.0, joined_at=0.0, facts=facts
    )
    return SeenMachine(row=row, state=state)


OATS = {"/src/oats": "host/farm/oats"}
FARM = (
    machine("crow", labels=("gpu",), turns=3, folders=OATS),
    machine("hawk", labels=("gpu", "big"), agents=("script", "claude"), cpus=2, turns=2),
    machine("owl", turns=1, folders={"/home/oats": "host/farm/oats", "/src/hay": ""}),
    machine("wren", state="draining"),
)


@pytest.mark.parametrize(
    ("wanted", "name", "folder"),
    [
        (Wanted(), "owl", ""),  # the least to do for its processors
        (Wanted(machine="any"), "owl", ""),
        (Wanted(machine="crow"), "crow", ""),
        (Wanted(machine="id-hawk"), "hawk", ""),
        (Wanted(labels=("gpu",)), "crow", ""),
        (Wanted(labels=("big", "gpu")), "hawk", ""),
        (Wanted(agent="claude"), "hawk", ""),
        (Wanted(repo="git@host:farm/oats.git"), "owl", "/home/oats"),
        (Wanted(repo="https://ann:secret@host/farm/oats"), "owl", "/home/oats"),
        (Wanted(repo="host/farm/oats", labels=("gpu",)), "crow", "/src/oats"),
        (Wanted(repo="host/farm/oats", folder="/src/oats"), "crow", "/src/oats"),
        (Wanted(folder="/src/oats"), "crow", "/src/oats"),  # it has worked there
        (Wanted(folder="/nobody/knows"), "owl", "/nobody/knows"),
    ],
)
def test_where_it_goes(wanted: Wanted, name: str, folder: str) -> None:
    placed = place(FARM, wanted)
    assert (placed.machine.name, placed.folder) == (name, folder)


def test_why_each_machine_does_not_fit_is_said() -> None:
    farm = (*FARM, machine("kite", state="unreachable"), machine("finch", agents=("claude",), login="no"))
    with pytest.raises(NoMachineFits) as raised:
        place(farm, Wanted(agent="claude", repo="host/farm/oats"))
    assert raised.value.kind == "unsupported"
    assert raised.value.reasons == {
        "crow": "claude is not installed",
        "hawk": "it has no folder of host/farm/oats",
        "owl": "claude is not installed",
        "wren": "it is draining and accepts no new work",
        "kite": "it is unreachable",
        "finch": "claude is not logged in",
    }
    assert "hawk: it has no folder of host/farm/oats" in str(raised.value)
    for wanted, reasons in (
        (Wanted(machine="heron"), {"heron": "there is no machine with that name"}),
        (Wanted(machine="owl", labels=("gpu", "big")), {"owl": "it has no label gpu, big"}),
    ):
        with pytest.raises(NoMachineFits) as raised:
            place(FARM, wanted)
        assert raised.value.reasons == reasons
    with pytest.raises(NoMachineFits, match="there is none"):
        place((), Wanted())


def test_a_path_is_no_repository() -> None:
    for repo in ("/src/oats", "../oats", "~/oats", "oats"):
        with pytest.raises(OstlerError) as raised:
            place(FARM, Wanted(repo=repo))
        assert raised.value.kind == "bad_request"


def test_what_was_placed_before_a_machine_told_of_it_counts() -> None:
    farm = (machine("crow"), machine("owl"))
    placed: dict[str, int] = {}
    names = []
    for _ in range(4):
        seen = place(farm, Wanted(), placed).machine
        placed[seen.id] = placed.get(seen.id, 0) + 1
        names.append(seen.name)
    assert names == ["crow", "owl", "crow", "owl"]


LABELS = st.lists(st.sampled_from(["gpu", "big"]), unique=True).map(tuple)
AGENTS = st.lists(st.sampled_from(["claude", "script"]), unique=True).map(tuple)
STATES = st.sampled_from(["live", "draining", "unreachable", "gone"])
FARMS = st.lists(
    st.builds(
        machine,
        st.sampled_from(["crow", "hawk", "owl", "wren"]),
        state=STATES,
        labels=LABELS,
        agents=AGENTS,
        login=st.sampled_from(["yes", "no", "unknown"]),
        folders=st.sampled_from([{}, OATS]),
        turns=st.integers(0, 9),
    ),
    unique_by=lambda seen: seen.name,
)
WISHES = st.builds(
    Wanted,
    machine=st.sampled_from(["", "any", "owl"]),
    labels=LABELS,
    agent=st.sampled_from(["", "claude"]),
    repo=st.sampled_from(["", "host/farm/oats"]),
)


def fits(seen: SeenMachine, wanted: Wanted) -> bool:
    facts = seen.row.facts
    return (
        seen.state == "live"
        and wanted.machine in ("", "any", seen.name)
        and set(wanted.labels) <= set(facts.labels)
        and (not wanted.agent or any(a.name == wanted.agent and a.login != "no" for a in facts.agents))
        and (not wanted.repo or any(folder.remote == wanted.repo for folder in facts.folders))
    )


@given(FARMS, WISHES)
def test_what_fits_is_chosen_and_an_error_only_where_nothing_does(farm: list[SeenMachine], wanted: Wanted) -> None:
    found: Placed | None = None
    try:
        found = place(farm, wanted)
    except NoMachineFits as error:
        meant = {seen.name for seen in farm if wanted.machine in ("", "any", seen.name)}
        assert error.reasons.keys() == (meant or ({wanted.machine} - {"", "any"})) and all(error.reasons.values())
    assert (found is not None) == any(fits(seen, wanted) for seen in farm)
    assert found is None or fits(found.machine, wanted)


def run_of(at: str | None = None, **wants: object) -> IndexedRun:
    wanted = RunWants(**{"version": "1", **wants})  # type: ignore[arg-type]
    return IndexedRun(id="r1", body=b"", created_at=1.0, machine=at, wants=wanted)


@pytest.mark.parametrize(
    ("run", "why"),
    [
        (run_of(), {"crow": "", "hawk": "", "owl": "", "wren": "it is draining and accepts no new work"}),
        (run_of(agents=("script", "claude"), labels=("big",)), {"crow": "it has no label big", "hawk": ""}),
        (run_of(agents=("claude", "script")), {"crow": "claude is not installed", "hawk": ""}),
        (run_of(repo="host/farm/oats"), {"crow": "", "hawk": "it has no folder of host/farm/oats", "owl": ""}),
        (run_of(machine="hawk"), {"crow": "the run is meant for hawk", "hawk": ""}),
        (run_of(machine="any"), {"crow": "", "hawk": ""}),
        (run_of(at="id-x", machine="x"), {"crow": "", "hawk": ""}),  # the name only says where it begins
        (run_of(version="2"), {"crow": "it runs workflow version 1, the run needs version 2"}),
    ],
)
def test_a_run_goes_to_a_machine_that_has_all_that_it_needs(run: IndexedRun, why: dict[str, str]) -> None:
    told = {seen.name: unfit_for_run(seen, run) for seen in FARM}
    assert {name: told[name] for name in why} == why


def test_of_those_that_fit_the_one_with_the_least_to_do_has_a_run() -> None:
    assert best_for_run(FARM[:3]).name == "owl"
