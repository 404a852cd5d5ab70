"""Pipeline files: what they mean, and thirty and more that are wrong, each told with its line and a remedy."""

import pytest

from ostler.errors import OstlerError
from ostler.model import Limits, TurnOptions
from ostler.pipelines.load import examples, load_pipeline
from ostler.pipelines.model import Input, Node, NodeLoop, Pipeline, Worktree
from ostler.pipelines.parse import check_pipeline, parse_pipeline

WHOLE = """\
name = "flow"
description = "all there is"
mode = "manual"
cost_usd = 2.5
schedule = "0 3 * * 1"
takeover = true
[inputs]
task = "hello"
who = { description = "a name" }

[nodes.last]
gate = "Take {{ nodes.plan.text }}?"
needs = ["plan", "test"]

[nodes.plan]
agent = "claude"
prompt = "Plan {{ inputs.task }} for {{ inputs.who }}"
access = "write"
limits = { total = "5m" }
fallback = ["codex"]
slash = true
agent_mode = "plan"
retry = 2
folder = "sub"
worktree = { base = "main", then = "merge" }
loop = { times = 3, check = ["make", "test"] }

[nodes.test]
command = ["make", "{{ item }}"]
each = "nodes.plan.structured.targets"
needs = ["plan"]
when = "nodes.plan.ok and len(nodes.plan.text) > 3"
mode = "auto"
"""


def test_everything_that_a_file_can_say() -> None:
    assert parse_pipeline("flow.toml", WHOLE) == Pipeline(
        name="flow",
        description="all there is",
        mode="manual",
        cost_usd=2.5,
        schedule="0 3 * * 1",
        takeover=True,
        inputs={"task": Input(default="hello"), "who": Input(description="a name")},
        nodes=(
            Node(
                name="plan",
                agent="claude",
                prompt="Plan {{ inputs.task }} for {{ inputs.who }}",
                retry=2,
                folder="sub",
                worktree=Worktree(base="main", then="merge"),
                loop=NodeLoop(times=3, check=("make", "test")),
                options=TurnOptions(
                    access="write", limits=Limits(total=300.0), fallback=("codex",), command=True, mode="plan"
                ),
            ),
            Node(
                name="test",
                command=("make", "{{ item }}"),
                each="nodes.plan.structured.targets",
                needs=("plan",),
                when="nodes.plan.ok and len(nodes.plan.text) > 3",
                mode="auto",
            ),
            Node(name="last", gate="Take {{ nodes.plan.text }}?", needs=("plan", "test")),
        ),
    )


def test_the_examples_are_right() -> None:
    assert sorted(examples()) == ["compare", "fix", "review"]
    for name in examples():
        assert load_pipeline(name).name == name


A = '[nodes.a]\nagent = "claude"\nprompt = "p"\n'
WRONG = [
    ("x = ", 1, "invalid value", "TOML"),
    ("[nodes.a\n", 1, "expected ']'", "TOML"),
    ("", 1, "nodes: a pipeline needs at least one node", "[nodes.NAME]"),
    ("nodes = 3", 1, "at least one node", "[nodes.NAME]"),
    ("nme = 'x'\n" + A, 1, "unknown key nme", "Did you mean name?"),
    ("name = ''\n" + A, 1, "cannot be the name of a pipeline", "letters"),
    ('mode = "fast"\n' + A, 1, "'fast' is neither auto nor manual", 'mode = "auto"'),
    ("cost_usd = 0\n" + A, 1, "cost_usd: expected dollars", "cost_usd = 2.50"),
    ('schedule = "daily"\n' + A, 1, "'daily' is not a valid cron line", "0 3 * * *"),
    ("takeover = 'yes'\n" + A, 1, "takeover: expected true or false", "takeover = true"),
    ("schedule = 3\n" + A, 1, "3 is not a valid cron line", "0 3 * * *"),
    ("[inputs]\nBig = 'x'\n" + A, 2, "cannot be the name of an input", "a-z"),
    ("[inputs]\ntask = 3\n" + A, 2, "expected its default as a string", "task = {}"),
    ("[inputs]\ntask = { defalt = 'x' }\n" + A, 2, "unknown key inputs.task.defalt", "Did you mean default?"),
    ("[nodes]\na = 3\n", 2, "nodes.a: expected a table", "[nodes.a]"),
    ("[nodes.A1]\nagent = 'x'\nprompt = 'p'\n", 1, "cannot be the name of a node", "a-z"),
    ("[nodes.a]\nneeds = []\n", 1, "exactly one of agent, command, gate", "agent ="),
    (A + "command = ['x']\n", 1, "it has agent and command", "agent ="),
    ("[nodes.a]\nagent = 'claude'\n", 1, "an agent needs a prompt", "prompt ="),
    (A + "acess = 'write'\n", 4, "unknown key nodes.a.acess", "Did you mean access?"),
    (A + "access = 'all'\n", 4, "'all' is not one of read, write, full", ""),
    (A + "limits = { total = 'soon' }\n", 4, "'soon' is not a valid limit", ""),
    (A + "needs = 'b'\n", 4, "expected a list of names", 'needs = ["b"]'),
    (A + "needs = ['bb']\n[nodes.b]\ngate = 'x'\n", 4, "there is no node 'bb'", "Did you mean b?"),
    (A + "needs = ['a']\n", 4, "a node cannot need itself", "loop"),
    (
        A + "needs = ['b']\n[nodes.b]\ngate = 'x'\nneeds = ['a']\n",
        4,
        "these nodes need each other: a → b → a",
        "Remove",
    ),
    ("[nodes.a]\ncommand = 'make test'\n", 2, "no shell is used", '["make", "test"]'),
    ("[nodes.a]\ncommand = []\n", 2, "a command needs a program", '["make", "test"]'),
    ("[nodes.a]\ncommand = ['x']\nprompt = 'p'\n", 3, "only an agent has a prompt", "Remove it"),
    ("[nodes.a]\ncommand = ['x']\nmodel = 'opus'\n", 3, "an option of an agent's turn", "Remove it"),
    ("[nodes.a]\ngate = 'ok?'\nretry = 1\n", 3, "a gate can only ask", "Remove it"),
    ("[nodes.a]\nagent = 'claude'\nprompt = 'do {{ inputs.tsk }}'\n", 3, "there is no input 'tsk'", "[inputs]"),
    ("[nodes.a]\nagent = 'claude'\nprompt = 'do {{ inputs.tsk'\n", 3, "a {{ is never closed", "Write"),
    (A + "[nodes.b]\ngate = '{{ nodes.a.text }}'\n", 5, "reads nodes.a, which it does not need", 'needs = ["a"]'),
    (A + "[nodes.b]\nneeds = ['a']\ngate = '{{ nodes.a.txt }}'\n", 6, "a result has no 'txt'", "Did you mean text?"),
    (A + "when = 'nodes ='\n", 4, "is not a valid expression", "=="),
    (A + "when = '__import__(1)'\n", 4, "only len(…) can be called", "=="),
    (A + "when = 'weather.good'\n", 4, "'weather.good' is not known", "inputs.NAME"),
    ("[nodes.a]\nagent = 'claude'\nprompt = '{{ item }}'\n", 3, "item is there only with each", "Add each"),
    ("[nodes.a]\nagent = 'claude'\nprompt = '{{ last.text }}'\n", 3, "last is there only in a loop", "Add loop"),
    (A + "each = 3\n", 4, "expected a list, or an expression", "each ="),
    (A + "each = ['x']\nloop = { times = 2, until = 'self.ok' }\n", 5, "either each or a loop", "two nodes"),
    (A + "loop = 3\n", 4, "nodes.a.loop: expected a table", "times = 3"),
    (A + "loop = { check = ['x'] }\n", 4, "a loop needs a bound", "times = 3"),
    (A + "loop = { times = 2 }\n", 4, "either check or until", "check ="),
    (A + "retry = -1\n", 4, "expected a number from 0 to 10", "retry = 2"),
    (A + "folder = '../x'\n", 4, "leaves the pipeline's folder", "below"),
    (A + "worktree = 'yes'\n", 4, "expected true or a table", "worktree = true"),
    (A + "worktree = { then = 'push' }\n", 4, "'push' is not one of merge, keep, drop", 'then = "merge"'),
    (A + "worktree = { base = '--all' }\n", 4, "cannot be a branch or commit", "base ="),
    (A + "mode = 'ask'\n", 4, "'ask' is neither auto nor manual", "manual"),
    (A + "on = 3\n", 4, "nodes.a.on: expected the name of a machine, or labels", ""),
    (A + "on = 'gpu,'\n", 4, "nodes.a.on: expected the name of a machine, or labels", 'on = "gpu"'),
    (A + "on = 'gpu'\nworktree = true\n", 5, "a worktree is made on this machine", "remove on"),
    (A + "on = 'gpu'\nfolder = 'sub'\n", 5, "'sub' is below the folder of the pipeline", "whole path"),
    (A + "on = 'gpu'\nloop = { times = 2, check = ['x'] }\n", 5, "a check runs on this machine", "Write until"),
    (A + "on = 'gpu'\nmcp = [{ name = 'x', command = 'y' }]\n", 5, "only the names of MCP servers", "settings"),
    (A + "on = 'gpu'\nwait_for = 'forwarded'\n", 5, "are forwarded by that machine", "remove on"),
    ("[nodes.a]\ncommand = ['x']\non = 'gpu'\n", 3, "only an agent's turn can run on another machine", "Remove on"),
    ("[nodes.a]\ngate = 'x?'\non = 'gpu'\n", 3, "only an agent's turn can run on another machine", "Remove on"),
]


@pytest.mark.parametrize(("text", "line", "message", "remedy"), WRONG, ids=lambda each: str(each)[:40])
def test_what_is_wrong_is_told_with_its_line_and_a_remedy(text: str, line: int, message: str, remedy: str) -> None:
    with pytest.raises(OstlerError) as raised:
        parse_pipeline("flow.toml", text)
    assert raised.value.kind == "bad_request"
    assert raised.value.message.startswith(f"flow.toml:{line}: "), raised.value.message
    assert message in raised.value.message
    assert remedy in str(raised.value)


@pytest.mark.parametrize(("value", "on"), [('"gpu"', "gpu"), ('"gpu, big"', "gpu,big"), ('["gpu", "big"]', "gpu,big")])
def test_where_a_node_runs(value: str, on: str) -> None:
    text = f"{A}on = {value}\nfolder = '~/work'\n"
    (node,) = parse_pipeline("flow.toml", text).nodes
    assert (node.on, node.folder) == (on, "~/work")


def test_there_are_thirty_wrong_ones() -> None:
    assert len(WRONG) >= 30


def test_a_pipeline_of_python_is_checked_too() -> None:
    two = Node(name="b", command=("true",), needs=("a",)), Node(name="a", agent="claude", prompt="p")
    assert [node.name for node in check_pipeline("x.py", Pipeline(name="p", nodes=two)).nodes] == ["a", "b"]
    for nodes in ((), (two[0],), (two[1], two[1]), (Node(name="a"),)):
        with pytest.raises(OstlerError):
            check_pipeline("x.py", Pipeline(name="p", nodes=nodes))
    placed = Node(name="a", agent="claude", prompt="p", on="gpu", worktree=Worktree())
    with pytest.raises(OstlerError, match="a worktree is made on this machine"):
        check_pipeline("x.py", Pipeline(name="p", nodes=(placed,)))
    with pytest.raises(OstlerError, match="'daily' is not a valid cron line"):
        check_pipeline("x.py", Pipeline(name="p", nodes=two, schedule="daily"))
