"""The machines that have joined, over HTTP."""

from msgspec import Struct

from ostler.machines.membership import Membership, SeenMachine
from ostler.machines.model import MachineFacts, MachineState
from ostler.server.routing import Routes

machines = Routes("machines")


class MachineView(MachineFacts, frozen=True, kw_only=True):
    """A machine that has joined."""

    id: str
    name: str
    url: str
    state: MachineState
    silent: float  # seconds since it was last heard of
    joined_at: float
    here: bool  # it is the one that answers


class MachineList(Struct, frozen=True, kw_only=True):
    """`trouble`: why the directory cannot be followed at the moment. The list is empty on a machine that is alone."""

    items: list[MachineView]
    trouble: str = ""


@machines("GET /api/machines", "The machines that have joined, and what each of them has")
async def list_machines(membership: Membership | None) -> MachineList:
    if membership is None:
        return MachineList(items=[])
    items = [machine_view(seen, here=seen.id == membership.id) for seen in membership.machines]
    return MachineList(items=items, trouble=str(membership.trouble or ""))


def machine_view(seen: SeenMachine, *, here: bool) -> MachineView:
    row, facts = seen.row, seen.row.facts
    return MachineView(
        id=row.id,
        name=row.name,
        url=row.url,
        state=seen.state,
        silent=round(row.age, 1),
        joined_at=row.joined_at,
        here=here,
        version=facts.version,
        labels=facts.labels,
        folders=facts.folders,
        agents=facts.agents,
        load=facts.load,
    )
