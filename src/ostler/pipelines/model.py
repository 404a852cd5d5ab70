"""A pipeline as its file says, and a run of it as the store keeps it."""

from typing import Any, Literal

from msgspec import Struct

from ostler.errors import OstlerError, quoted
from ostler.model import TurnOptions

Mode = Literal["auto", "manual"]
MergeMode = Literal["merge", "keep", "drop"]
NodeKind = Literal["agent", "command", "gate"]
NodeState = Literal["waiting", "gate", "running", "done", "failed", "skipped", "cancelled"]
RunState = Literal["running", "cancelling", "done", "failed", "cancelled", "moved"]

WORKFLOW_VERSION = "1"  # of what the engine does step by step: nobody goes on with a run of another one


class Input(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that is given when the pipeline is started."""

    default: str | None = None  # None: it has to be given
    description: str = ""


class NodeLoop(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The node runs again until `check` exits with 0, or `until` is true of its own result; so often at most."""

    times: int
    check: tuple[str, ...] = ()
    until: str = ""


class Worktree(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A git worktree of its own. At the end its branch is merged, kept or dropped."""

    base: str = "HEAD"
    then: MergeMode = "keep"


class Node(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A turn of an agent, a command, or a gate alone."""

    name: str
    agent: str = ""  # or a profile
    on: str = ""  # the machine of its turn: a name, `any`, or the labels that it has, with commas
    prompt: str = ""
    command: tuple[str, ...] = ()
    gate: str = ""  # what a person is asked, where the node is nothing but that
    mode: Mode | None = None  # "manual": it waits for a person's go
    needs: tuple[str, ...] = ()
    when: str = ""  # it is skipped unless this is true
    each: str = ""  # it runs for each item of this list, as `item`
    loop: NodeLoop | None = None
    retry: int = 0  # times that it is run again after a failure
    folder: str = ""  # relative to the pipeline's
    worktree: Worktree | None = None
    options: TurnOptions = TurnOptions()

    @property
    def kind(self) -> NodeKind:
        return "agent" if self.agent else "command" if self.command else "gate"

    @property
    def by(self) -> str:
        """Who does it, for people."""
        return self.agent or self.kind


class Pipeline(Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    nodes: tuple[Node, ...]  # in an order in which each comes after those that it needs
    description: str = ""
    mode: Mode = "auto"
    inputs: dict[str, Input] = {}
    cost_usd: float | None = None  # no further node begins once the run has cost so much
    schedule: str = ""  # a cron line; it counts once the user has switched it on
    takeover: bool = False  # when its machine is lost, another one goes on with it

    def node(self, name: str) -> Node:
        return next(node for node in self.nodes if node.name == name)

    def find(self, name: str) -> Node:
        """Raises not_found, with the names that there are."""
        found = next((node for node in self.nodes if node.name == name), None)
        if found is None:
            names = ", ".join(node.name for node in self.nodes)
            raise OstlerError(
                "not_found", f"the pipeline {self.name} has no node {quoted(name[:100])}", f"It has: {names}"
            )
        return found

    def after(self, name: str) -> set[str]:
        """The nodes that need this one, directly or not."""
        found: set[str] = set()
        for node in self.nodes:
            if name in node.needs or found & {*node.needs}:
                found.add(node.name)
        return found


class NodeResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a node gives to those that need it. `items` has the results of an `each`."""

    state: NodeState
    text: str = ""
    summary: str = ""
    structured: Any = None
    diff: str = ""
    artifacts: dict[str, str] = {}
    stdout: str = ""
    exit: int | None = None
    error: str = ""
    kind: str = ""  # of the error
    session: str = ""
    turn: str = ""
    agent: str = ""
    machine: str = ""  # that ran it; "": the one that the run is on
    folder: str = ""  # a path of that machine, as those of `artifacts`
    cost_usd: float | None = None
    duration_ms: int = 0
    tries: int = 1
    notices: tuple[str, ...] = ()
    items: tuple["NodeResult", ...] = ()

    @property
    def ok(self) -> bool:
        return self.state == "done"

    @property
    def stops(self) -> bool:
        """Whether nodes that need it are skipped: not by one that its own `when` has skipped, which has no error."""
        return self.state in ("failed", "cancelled") or (self.state == "skipped" and bool(self.error))


class Approval(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a person said at a gate. `prompt` stands for the node's own, `answer` for its result."""

    go: bool
    by: str = ""
    prompt: str | None = None
    answer: str | None = None


class NodeRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A node of a run. `sessions`: those that it works in, by item ("" where it has none)."""

    run: str
    node: str
    state: NodeState = "waiting"
    started_at: float | None = None
    ended_at: float | None = None
    sessions: dict[str, str] = {}
    result: NodeResult | None = None
    approval: Approval | None = None
    question: str = ""  # what a person is asked, at a gate
    lost: str = ""  # the machine that was lost while it was under way there


class RunRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A run of a pipeline. `moved`: another machine has it by now."""

    id: str
    pipeline: Pipeline
    folder: str
    created_at: float
    state: RunState = "running"
    inputs: dict[str, str] = {}
    owner: str | None = None
    ended_at: float | None = None
    error: str = ""
    fork_of: str | None = None
    given: dict[str, NodeResult] = {}  # results that were taken over from the run that it is a fork of
    fence: int = 0  # under which this machine has it, among all machines; 0: no other machine knows of it
