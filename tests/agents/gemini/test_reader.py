"""gemini: verdicts of recorded cases, event lists by hand, and what must not pass as success."""

import pytest

from agents.replayed import CAPTURES, EXPECTED, cases, check_expected, lines, replay, replay_lines, turn_of
from ostler.agents.gemini.agent import AGENT
from ostler.model import (
    AnyEvent,
    Denial,
    FileChange,
    Limited,
    Notice,
    Problem,
    Raw,
    Started,
    Text,
    TextDelta,
    ToolEnded,
    ToolStarted,
    Turn,
    Usage,
    Verdict,
)

RECORDED = [case for case in cases("gemini") if not case.endswith(".hooks")]
ID = "12345678-1234-4234-8234-123456789abc"
FINAL = "All done. The tool ran and this is the final answer."
LOGIN = "Log in: run gemini once, or set GEMINI_API_KEY"
TURN = {"prompt": "hello", "folder": "/project", "access": "read"}


def a_turn(**fields: object) -> Turn:
    return turn_of("gemini", **TURN | fields)


def play(stdout: list[bytes], stderr: str = "", code: int = 0, **fields: object) -> tuple[list[AnyEvent], Verdict]:
    return replay_lines("gemini", stdout, stderr, code, **TURN | fields)


def recorded(case: str, **fields: object) -> tuple[list[AnyEvent], Verdict]:
    return replay("gemini", case, **TURN | fields)


def deltas(text: str) -> list[TextDelta]:
    return [TextDelta(text=word) for word in text.replace(" ", " \0").split("\0")]


@pytest.mark.parametrize("case", [name.partition("/")[2] for name in EXPECTED if name.startswith("gemini/")])
def test_the_verdict_of_every_case(case: str) -> None:
    check_expected("gemini", case, recorded(case)[1])


@pytest.mark.parametrize("case", RECORDED)
def test_every_capture_gives_whole_texts_and_closes_its_tools(case: str) -> None:
    events, verdict = recorded(case)
    started = [e.id for e in events if isinstance(e, ToolStarted)]
    assert started == [e.id for e in events if isinstance(e, ToolEnded)]
    said = "".join(e.text for e in events if isinstance(e, TextDelta))
    assert said == "".join(e.text for e in events if isinstance(e, Text))
    assert verdict.text == next((e.text for e in reversed(events) if isinstance(e, Text)), "")
    assert all(e.line for e in events if isinstance(e, Raw))  # half lines; no record is unknown


def test_events_of_a_turn_with_a_command() -> None:
    events, verdict = recorded("turn-stream-json")
    session, tool = "08e6430f-faf9-4ac1-bcbe-1258660e7bdb", "run_shell_command__fc-6c359158"
    command = "echo hello-from-tool > tool_out.txt && cat tool_out.txt"
    assert events == [
        Started(agent="gemini", agent_session=session, model="gemini-2.5-pro", folder="/project"),
        *deltas("I will run one tool now."),
        Text(text="I will run one tool now."),
        ToolStarted(
            id=tool,
            name="run_shell_command",
            title=command,
            input={"command": command, "description": "run the scripted step"},
        ),
        ToolEnded(id=tool, output="hello-from-tool"),
        *deltas(FINAL),
        Text(text=FINAL),
    ]
    assert verdict == Verdict(
        outcome="done",
        evidence=("result: success",),
        text=FINAL,
        agent_session=session,
        model="gemini-2.5-pro",
        usage=Usage(input_tokens=2468, output_tokens=112, cached_tokens=2000),
    )


def test_events_of_an_abort_in_the_middle_of_a_tool() -> None:
    events, verdict = recorded("sigint-norelaunch-mid-tool")
    session, tool = "71117436-32ee-430b-8599-d2de1ac98242", "run_shell_command__fc-d500795e"
    command = "sleep 12; echo finished > late.txt"
    assert events == [
        Started(agent="gemini", agent_session=session, model="gemini-2.5-pro", folder="/project"),
        *deltas("I will run one tool now."),
        Text(text="I will run one tool now."),
        ToolStarted(
            id=tool,
            name="run_shell_command",
            title=command,
            input={"command": command, "description": "run the scripted step"},
        ),
        ToolEnded(id=tool, ok=False),
    ]
    assert (verdict.outcome, verdict.error) == (
        "unproven",
        Problem(kind="unproven", message="gemini ended without a result"),
    )


def test_retries_are_told_from_stderr() -> None:
    events, _ = recorded("error-429")
    limited = [e for e in events if isinstance(e, Limited)]
    assert [(e.error, e.attempt) for e in limited] == [("limited", n) for n in range(1, 6)]
    events, _ = recorded("error-500")
    limited = [e for e in events if isinstance(e, Limited)]
    assert [(e.error, e.attempt) for e in limited] == [("overloaded", n) for n in range(1, 7)]


def test_a_retry_with_its_delay() -> None:
    line = "Attempt 2 failed: quota exceeded. Retrying after 1500ms..."
    assert AGENT.reader(a_turn()).read_stderr(line) == [Limited(error="limited", message=line, attempt=2, retry_in=1.5)]
    assert AGENT.reader(a_turn()).read_stderr("Attempt 1 failed: x. Max attempts reached") == []


INIT = {"type": "init", "session_id": ID, "model": "auto"}
SUCCESS = {"type": "result", "status": "success", "stats": {}}


def called(name: str, **parameters: object) -> dict[str, object]:
    return {"type": "tool_use", "tool_name": name, "tool_id": "c1", "parameters": parameters}


def answered(**fields: object) -> dict[str, object]:
    return {"type": "tool_result", "tool_id": "c1", **fields}


def test_the_model_that_did_the_work_is_named() -> None:
    models = {"lite": {"total_tokens": 5}, "gemini-3-pro": {"total_tokens": 900}}
    _, verdict = play(lines(INIT, {**SUCCESS, "stats": {"models": models}}))
    assert verdict.model == "gemini-3-pro"
    assert play(lines(INIT, SUCCESS))[1].model == "auto"


def test_a_failed_command_is_a_failed_tool() -> None:
    said = "nothing\nCommand exited with code: 3"
    events, _ = play(lines(called("run_shell_command", command="x"), answered(status="success", output=said)))
    assert events[1] == ToolEnded(id="c1", ok=False, output=said, exit_code=3)


def test_a_written_file_is_named() -> None:
    files = (FileChange(path="w.txt"),)
    events, _ = play(lines(called("write_file", file_path="w.txt", content="x"), answered(status="success")))
    assert events == [
        ToolStarted(
            id="c1", name="write_file", title="w.txt", input={"file_path": "w.txt", "content": "x"}, files=files
        ),
        ToolEnded(id="c1", files=files),
    ]


@pytest.mark.parametrize(
    ("access", "name", "remedy"),
    [
        ("read", "write_file", "write"),
        ("read", "run_shell_command", "full"),
        ("write", "run_shell_command", "full"),
        ("write", "mcp_w_scribble", "full"),
    ],
)
def test_a_tool_that_the_access_took_away_was_denied(access: str, name: str, remedy: str) -> None:
    why = f'Tool "{name}" not found. Did you mean one of: "read_file"?'
    error = {"type": "tool_not_registered", "message": why}
    stream = lines(called(name, path="x"), answered(status="error", output=why, error=error))
    events, verdict = play(stream, access=access)
    assert events[1] == ToolEnded(id="c1", ok=False, output=why, denied=True)
    assert verdict.denied == (Denial(tool=name, target="x", access=remedy, reason=why),)


def test_a_tool_that_never_was_is_not_denied() -> None:
    error = {"type": "tool_not_registered", "message": "not found"}
    stream = lines(called("fly"), answered(status="error", error=error))
    assert play(stream)[1].denied == ()
    stream = lines(called("write_file"), answered(status="error", error=error))
    assert play(stream, access="full")[1].denied == ()


@pytest.mark.parametrize(("access", "remedy"), [("write", "full"), ("full", None)])
def test_a_path_outside_of_the_folder_was_denied(access: str, remedy: str | None) -> None:
    error = {"type": "invalid_tool_params", "message": 'Path not in workspace: Attempted path "/x" resolves outside'}
    stream = lines(called("write_file", file_path="/x"), answered(status="error", error=error))
    denial = Denial(tool="write_file", target="/x", access=remedy, reason="outside of the folder")
    assert play(stream, access=access)[1].denied == (denial,)


def test_warnings_that_look_like_errors_do_not_fail_a_turn() -> None:
    warning = {"type": "error", "severity": "warning", "message": "Loop detected, stopping execution"}
    events, verdict = play(lines(INIT, warning, called("glob"), SUCCESS), "Error executing tool write_file: no\n")
    assert events[1:2] == [Notice(text="Loop detected, stopping execution", code="warning")]
    assert verdict.outcome == "done"


@pytest.mark.parametrize(
    ("case", "problem"),
    [
        (
            "auth-gateway-trap",
            Problem(kind="unauthenticated", message="Invalid auth method selected.", hint=LOGIN),
        ),
        (
            "resume-bad",
            Problem(
                kind="not_found",
                message='Error resuming session: Invalid session identifier "11111111-2222-3333-4444-555555555555".',
                hint="Start a new session; gemini finds a conversation in its own folder only",
            ),
        ),
        (
            "resume-other-cwd",
            Problem(
                kind="not_found",
                message="Error resuming session: No previous sessions found for this project.",
                hint="Start a new session; gemini finds a conversation in its own folder only",
            ),
        ),
        (
            "session-id-reused",
            Problem(
                kind="exists",
                message=f'Error starting session: Session ID "{ID}" already exists. '
                "Use --resume to resume it, or provide a different ID.",
            ),
        ),
        ("error-401", Problem(kind="unauthenticated", message="scripted 401 from the fake server", hint=LOGIN)),
        ("error-400", Problem(kind="bad_request", message="scripted 400 from the fake server")),
        ("error-500-maxAttempts1", Problem(kind="overloaded", message="scripted 500 from the fake server")),
    ],
)
def test_what_is_said_of_bad_ends(case: str, problem: Problem) -> None:
    assert recorded(case)[1].error == problem


def test_an_untrusted_folder_is_denied() -> None:
    error = recorded("untrusted-folder")[1].error
    assert error is not None
    assert (error.kind, error.message[:54]) == ("denied", "Gemini CLI is not running in a trusted directory. To p")
    assert error.hint == "gemini does not trust the folder: check the settings in it, then run `ostler trust`"


def failed(message: str, type: str = "unknown") -> list[bytes]:
    return lines(INIT, {"type": "result", "status": "error", "error": {"type": type, "message": message}})


@pytest.mark.parametrize(
    ("code", "message", "kind"),
    [
        (173, "[API Error: You have had enough]\nPlease wait and try again later.", "limited"),
        (247, "[API Error: scripted trouble]", "overloaded"),
        (147, "[API Error: no]", "unauthenticated"),
        (1, "[API Error: terminated]", "overloaded"),
        (1, "[API Error: Unexpected end of JSON input]", "overloaded"),
        (1, "something else", "crashed"),
    ],
)
def test_the_exit_code_tells_the_servers_status(code: int, message: str, kind: str) -> None:
    error = play(failed(message), code=code)[1].error
    assert error is not None and error.kind == kind


def test_a_slash_command_that_was_not_taken_is_a_bad_request() -> None:
    said = "[API Error: Exiting due to command result that is not supported in non-interactive mode.]"
    assert play(failed(said, "FatalInputError"), code=42)[1].error == Problem(
        kind="bad_request", message=said.removeprefix("[API Error: ").removesuffix("]")
    )


def test_another_conversation_than_the_one_asked_for_is_not_found() -> None:
    _, verdict = recorded("session-id", resume=True, agent_session="99999999-1234-4234-8234-123456789abc")
    assert verdict.error is not None and verdict.error.kind == "not_found"
    assert recorded("session-id", resume=True, agent_session=ID)[1].outcome == "done"


def test_half_a_stream_keeps_its_text_and_proves_nothing() -> None:
    whole = (CAPTURES / "gemini" / "session-id.ndjson").read_bytes().splitlines()
    events, verdict = play(whole[:-1])
    assert verdict.outcome == "unproven"
    assert (events[-1], verdict.text) == (Text(text=FINAL), FINAL)


def test_success_with_a_bad_exit_code_is_a_crash() -> None:
    assert play(lines(INIT, SUCCESS), code=1)[1].outcome == "crashed"
    assert play(lines(INIT, SUCCESS), code=-15)[1].outcome == "crashed"
