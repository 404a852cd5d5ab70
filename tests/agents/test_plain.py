"""A command line as an agent: its arguments, and the proof by exit code or by a line."""

from typing import Any

import pytest

from agents.replayed import turn_of
from ostler.agents import all_project_config
from ostler.agents.launches import ARGUMENT_LIMIT
from ostler.agents.plain import UNCONFINED, plain_agent
from ostler.errors import OstlerError
from ostler.model import Attachment, Exit, Host, Launch, PlainAgent, Problem, Raw, Text, TextDelta, Verdict

HOST = Host(executable="/bin/tool", private="/private")


def launched(*command: str, **turn: Any) -> Launch:
    agent = plain_agent("tool", PlainAgent(command=("tool", *command)))
    return agent.launch(turn_of("tool", **turn), HOST)


def judged(*lines: str, code: int = 0, stderr: str = "", done_pattern: str = "", of_turn: str = "") -> Verdict:
    agent = plain_agent("tool", PlainAgent(command=("tool",), done_pattern=done_pattern))
    reader = agent.reader(turn_of("tool", done_pattern=of_turn))
    for line in lines:
        reader.read_line(line.encode())
    reader.flush()
    return reader.end(Exit(signal=-code) if code < 0 else Exit(code=code), stderr)


# -- the launch -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "options", "launch"),
    [
        (("--go",), {}, Launch(argv=("/bin/tool", "--go"), stdin=b"do it")),
        (("-m", "{prompt}"), {}, Launch(argv=("/bin/tool", "-m", "do it"))),
        (
            ("--file={prompt_file}",),
            {},
            Launch(argv=("/bin/tool", "--file=/private/prompt.txt"), files={"/private/prompt.txt": b"do it"}),
        ),
        (
            ("--model={model}", "-C{folder}"),
            {"model": "m"},
            Launch(argv=("/bin/tool", "--model=m", "-C/workspace"), stdin=b"do it"),
        ),
        (("--model={model}",), {}, Launch(argv=("/bin/tool",), stdin=b"do it")),
        (("{other}", "{}"), {}, Launch(argv=("/bin/tool", "{other}", "{}"), stdin=b"do it")),
        (("{prompt}",), {"prompt": "--yes {model}"}, Launch(argv=("/bin/tool", "\n--yes {model}"))),
        ((), {"prompt": "/exit"}, Launch(argv=("/bin/tool",), stdin=b"\n/exit")),
        ((), {"prompt": "/exit", "command": True}, Launch(argv=("/bin/tool",), stdin=b"/exit")),
        ((), {"system": "Be brief", "first": False}, Launch(argv=("/bin/tool",), stdin=b"Be brief\n\ndo it")),
        (
            (),
            {"attachments": (Attachment(name="a.txt", content="x"),)},
            Launch(argv=("/bin/tool",), stdin=b'do it\n\n<file name="a.txt">\nx\n</file>'),
        ),
    ],
)
def test_a_launch(command: tuple[str, ...], options: dict[str, Any], launch: Launch) -> None:
    assert launched(*command, **options) == launch


def test_the_variables_of_a_turn_come_before_those_of_the_settings() -> None:
    agent = plain_agent("tool", PlainAgent(command=("tool",), env={"A": "1", "B": "2"}))
    assert agent.launch(turn_of("tool", env={"B": "3"}), HOST).env == {"A": "1"}


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"model": "m"}, "unsupported", "tool cannot be given a model"),
        ({"tools_denied": ("web",)}, "unsupported", "tool cannot be given a list of tools"),
    ],
)
def test_what_it_cannot_be_given(options: dict[str, Any], kind: str, message: str) -> None:
    with pytest.raises(OstlerError) as refused:
        launched(**options)
    assert (refused.value.kind, refused.value.message) == (kind, message)


def test_the_proof_decides_also_where_settings_are_made_in_python() -> None:
    by_exit = PlainAgent(command=("tool",), proof="exit", done_pattern="^DONE$")
    assert plain_agent("tool", by_exit).reader(turn_of("tool")).end(Exit(code=0), "").outcome == "done"
    by_pattern = plain_agent("tool", PlainAgent(command=("tool",), proof="pattern"))
    with pytest.raises(OstlerError, match=r'agents\.tool: proof = "pattern" needs done_pattern'):
        by_pattern.launch(turn_of("tool"), HOST)


def test_nothing_that_a_folder_brings_counts_before_it_is_trusted() -> None:
    agent = plain_agent("tool", PlainAgent(command=("tool",)))
    assert agent.project_config == all_project_config()
    host = Host(executable="/bin/tool", project_config=("/workspace/.mcp.json",))
    with pytest.raises(OstlerError) as refused:
        agent.launch(turn_of("tool"), host)
    assert refused.value.kind == "denied"


def test_what_is_said_of_it() -> None:
    agent = plain_agent("tool", PlainAgent(command=("run-it", "{prompt}"), models=("t-*",), env_pass=("T_*",)))
    assert (agent.name, agent.title, agent.description, agent.binaries) == ("tool", "tool", "", ("run-it",))
    assert (agent.models, agent.env, agent.prompt_limit) == (("t-*",), ("T_*",), ARGUMENT_LIMIT)
    assert agent.unpromised == {"read": UNCONFINED, "write": UNCONFINED}
    assert (agent.probed, agent.resumes, agent.cost, agent.tokens) == (False, False, False, False)
    named = plain_agent("tool", PlainAgent(command=("x",), title="Tool", description="Does it"))
    assert (named.title, named.description, named.prompt_limit) == ("Tool", "Does it", None)


# -- the reader -------------------------------------------------------------------------------------


def test_lines_are_text_and_stderr_is_raw() -> None:
    reader = plain_agent("tool", PlainAgent(command=("tool",))).reader(turn_of("tool"))
    assert reader.joins_lines
    assert reader.read_line(b"one") == [TextDelta(text="one\n")]
    assert reader.read_line(b'{"type":"result"}\xff') == [TextDelta(text='{"type":"result"}�\n')]
    assert reader.read_stderr("log") == [Raw(line="log", stream="stderr")]
    assert reader.flush() == [Text(text='one\n{"type":"result"}�\n')]


def test_what_is_kept_of_the_text_is_bounded() -> None:
    reader = plain_agent("tool", PlainAgent(command=("tool",), done_pattern="^DONE")).reader(turn_of("tool"))
    for _ in range(3):
        reader.read_line(b"x" * 400_000)
    reader.read_line(b"DONE")
    reader.flush()
    assert (len(reader.text), reader.result) == (800_002, "ok")


DONE = Verdict(outcome="done", text="ok\n", evidence=("exit code 0",))
NO_LINE = Problem(
    kind="unproven",
    message="tool printed no line that matches '^DONE$'",
    hint="Check its output, or change done_pattern",
)


@pytest.mark.parametrize(
    ("verdict", "wanted"),
    [
        (judged("ok"), DONE),
        (judged(), Verdict(outcome="done", evidence=("exit code 0",))),
        (
            judged("ok", code=1, stderr="a\nno such file\n"),
            Verdict(outcome="failed", text="ok\n", error=Problem(kind="crashed", message="no such file")),
        ),
        (
            judged(code=3),
            Verdict(
                outcome="failed", error=Problem(kind="crashed", message="tool ended with exit code 3 and no result")
            ),
        ),
        (
            judged(code=-9),
            Verdict(outcome="crashed", error=Problem(kind="crashed", message="tool was ended by signal 9")),
        ),
        (
            judged("a", "DONE", "b", done_pattern="^DONE$"),
            Verdict(outcome="done", text="a\nDONE\nb\n", evidence=("line: DONE",)),
        ),
        (
            judged("\x1b[32mDONE\x1b[0m", done_pattern="^DONE$"),
            Verdict(outcome="done", text="\x1b[32mDONE\x1b[0m\n", evidence=("line: DONE",)),
        ),
        (
            judged("not DONE", done_pattern="^DONE$"),
            Verdict(outcome="unproven", text="not DONE\n", error=NO_LINE, evidence=("exit code 0",)),
        ),
        (
            judged("DONE", code=2, done_pattern="^DONE$"),
            Verdict(
                outcome="failed",
                text="DONE\n",
                error=Problem(kind="crashed", message="tool reported success but ended with exit code 2"),
                evidence=("line: DONE",),
            ),
        ),
    ],
)
def test_the_verdict(verdict: Verdict, wanted: Verdict) -> None:
    assert verdict == wanted


def test_a_pattern_of_the_turn_counts_before_the_agents_own() -> None:
    assert judged("SHIPPED", done_pattern="^DONE$", of_turn="SHIPPED").outcome == "done"
    assert judged("DONE", done_pattern="^DONE$", of_turn="SHIPPED").outcome == "unproven"
    assert judged("nothing", of_turn="SHIPPED").outcome == "unproven"
    assert judged("SHIPPED", of_turn="SHIPPED").evidence == ("line: SHIPPED",)


def test_a_line_that_said_so_counts_where_the_program_stays() -> None:
    reader = plain_agent("tool", PlainAgent(command=("tool",), done_pattern="^DONE$")).reader(turn_of("tool"))
    reader.read_line(b"DONE")
    reader.flush()
    assert reader.result == "ok"
    assert reader.end(None, "") == Verdict(outcome="done", text="DONE\n", evidence=("line: DONE",))
