"""codex: whole command lines, and what is refused before it starts."""

import pytest

from agents.replayed import cases, turn_of
from ostler.agents.codex.agent import AGENT
from ostler.agents.codex.launch import LOG_FILTER, PROMPT_LIMIT
from ostler.errors import OstlerError
from ostler.model import Attachment, Host, Launch, Turn

RECORDED = [case for case in cases("codex") if not case.endswith((".hooks", ".trace"))]
ID = "01a1e199-6d02-7c42-8e83-d99da6bc007f"
HOST = Host(executable="/bin/codex", private="/run/private", home="/home/ann")
FINAL = "All done. The tool ran and this is the final answer."
UNKNOWN_MODEL = (
    "Model metadata for `gpt-5-fake` not found. Defaulting to fallback metadata; "
    "this can degrade performance and cause issues."
)
QUIET_LOG = '--config=shell_environment_policy.set.RUST_LOG=""'
READ = ("--sandbox=read-only", '--config=approval_policy="never"', "--ignore-rules")
UNTRUSTED = '--config=projects={"/work"={trust_level="untrusted"}}'
TURN = {"prompt": "hello", "folder": "/work", "access": "read"}


def a_turn(**fields: object) -> Turn:
    return turn_of("codex", **TURN | fields)


def test_the_default_launch() -> None:
    assert AGENT.launch(a_turn(prompt="--version"), HOST) == Launch(
        argv=("/bin/codex", "exec", "--json", "--skip-git-repo-check", *READ, UNTRUSTED, QUIET_LOG, "-"),
        stdin=b"--version",
        env={"RUST_LOG": LOG_FILTER},
    )


@pytest.mark.parametrize(
    ("access", "flags"),
    [
        ("read", READ),
        (
            "write",
            (
                "--sandbox=workspace-write",
                '--config=approval_policy="never"',
                "--ignore-rules",
                "--config=sandbox_workspace_write.writable_roots=[]",
                "--config=sandbox_workspace_write.network_access=false",
            ),
        ),
        ("full", ("--sandbox=danger-full-access", '--config=approval_policy="never"')),
    ],
)
def test_access_is_set_by_flags(access: str, flags: tuple[str, ...]) -> None:
    launch = AGENT.launch(a_turn(access=access), HOST)
    assert launch.argv == ("/bin/codex", "exec", "--json", "--skip-git-repo-check", *flags, UNTRUSTED, QUIET_LOG, "-")


def test_everything_at_once_stands_before_resume() -> None:
    turn = a_turn(
        prompt="go on",
        model="--help",
        system='Say "hay"\n\\ \x7f',
        lean=True,
        schema={"type": "object"},
        first=False,
        resume=True,
        agent_session=ID,
        env={"RUST_LOG": "debug"},
        attachments=(
            Attachment(path="/pics/a b.png", image=True),
            Attachment(path="/pics/c,d.png", image=True),
            Attachment(name="n.txt", content="inline"),
        ),
    )
    assert AGENT.launch(turn, HOST) == Launch(
        argv=(
            *("/bin/codex", "exec", "--json", "--skip-git-repo-check", *READ, UNTRUSTED),
            "--model=--help",
            "--config=features.plugins=false",
            '--config=developer_instructions="Say \\"hay\\"\\n\\\\ \\u007f"',
            "--output-schema=/run/private/schema.json",
            "--image=/pics/a b.png",
            *("resume", ID, "-"),
        ),
        stdin=b'go on\n\nAttached files:\n- /pics/c,d.png\n\n<file name="n.txt">\ninline\n</file>',
        files={"/run/private/schema.json": b'{"type": "object"}'},
    )


def test_a_fork_names_its_origin() -> None:
    launch = AGENT.launch(a_turn(resume=True, fork=True, agent_session=ID), HOST)
    assert launch.argv[-3:] == ("fork", ID, "-")


@pytest.mark.parametrize("name", ["my-thread", "--last", "", None, f"{ID} x"])
def test_only_an_id_is_resumed(name: str | None) -> None:
    with pytest.raises(OstlerError) as caught:
        AGENT.launch(a_turn(resume=True, agent_session=name), HOST)
    assert caught.value.kind == "bad_request"


@pytest.mark.parametrize(
    "turn",
    [a_turn(system="x" * 200_000), a_turn(system="short", resume=True, agent_session=ID)],
    ids=["too long for an argument", "of an adopted conversation"],
)
def test_a_system_prompt_that_the_flag_cannot_carry_precedes_the_first_prompt(turn: Turn) -> None:
    launch = AGENT.launch(turn, HOST)
    assert launch.stdin == f"{turn.system}\n\nhello".encode()
    assert launch.notices == ("the system prompt was put before the first prompt",)
    assert not any("developer_instructions" in part for part in launch.argv)


@pytest.mark.parametrize(
    ("turn", "kind"),
    [
        (a_turn(prompt="x" * (PROMPT_LIMIT + 1)), "bad_request"),
        (a_turn(tools_denied=("shell",)), "unsupported"),
        (a_turn(command=True, prompt="/compact"), "unsupported"),
    ],
)
def test_what_codex_cannot_do_is_refused_before_it_starts(turn: Turn, kind: str) -> None:
    with pytest.raises(OstlerError) as caught:
        AGENT.launch(turn, HOST)
    assert caught.value.kind == kind


def test_a_prompt_of_as_many_characters_as_codex_takes() -> None:
    assert len(AGENT.launch(a_turn(prompt="é" * PROMPT_LIMIT), HOST).stdin) == 2 * PROMPT_LIMIT
