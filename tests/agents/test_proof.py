"""A success is proven by what a model did: an error of the API that is told as an answer is an error."""

from typing import Any

import pytest

from agents.codex_played import Played
from agents.replayed import lines, replay_lines, turn_of
from ostler.agents.acp.reader import AcpReader
from ostler.agents.reader import Reader
from ostler.agents.values import Record
from ostler.model import AnyEvent, Denial, Exit, Text, ToolEnded, ToolStarted, Usage

ID = "460d213a-31cc-4c9b-b78a-7cda0a5797e8"


def qwen(said: str, made: int, before: int = 0) -> list[bytes]:
    """A turn as qwen 0.23.0 tells it, word for word; the result counts the whole conversation."""
    usage = {"input_tokens": 1234 if made else 0, "output_tokens": made}
    whole = {"input_tokens": before + usage["input_tokens"], "output_tokens": before + made}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "fake-model", "stop_reason": None}
    message |= {"content": [{"type": "text", "text": said}], "usage": usage}
    return lines(
        {"type": "system", "subtype": "init", "session_id": ID, "model": "fake-model"},
        {"type": "assistant", "session_id": ID, "parent_tool_use_id": None, "message": message},
        {"type": "result", "subtype": "success", "session_id": ID, "is_error": False, "num_turns": 1}
        | {"result": said, "usage": whole, "permission_denials": []},
    )


@pytest.mark.parametrize(("status", "kind"), [(401, "unauthenticated"), (429, "limited"), (500, "overloaded")])
@pytest.mark.parametrize("resumed", [False, True])
def test_an_error_for_an_answer_of_qwen(status: int, kind: str, resumed: bool) -> None:
    said = f"[API Error: {status} scripted {status} from the scripted model]"
    options: dict[str, Any] = {"agent_session": ID, "resume": True} if resumed else {}
    events, verdict = replay_lines("qwen", qwen(said, 0, before=500 if resumed else 0), **options)
    assert (verdict.outcome, verdict.error and verdict.error.kind) == ("failed", kind)
    assert verdict.error is not None and verdict.error.message == said[1:-1]
    assert bool(verdict.error.hint) == (kind == "unauthenticated")
    assert not [event for event in events if isinstance(event, Text)]


def test_an_error_for_an_answer_of_qwen_after_a_tool() -> None:
    """As 0.23.0 tells it: the tool ran, and the server failed at the next request."""
    call = {"type": "tool_use", "id": "t1", "name": "run_shell_command", "input": {"command": "ls"}}
    usage = {"input_tokens": 1234, "output_tokens": 56}
    init, *answer = qwen("[API Error: 429 slow down]", 0, before=56)
    called = lines(
        {"type": "assistant", "session_id": ID, "message": {"id": "a", "content": [call], "usage": usage}},
        {"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t1", "content": "made.txt"}]}},
    )
    _, verdict = replay_lines("qwen", [init, *called, *answer])
    assert verdict.error is not None and verdict.outcome == "failed"
    assert (verdict.error.kind, verdict.error.message) == ("limited", "API Error: 429 slow down")


@pytest.mark.parametrize("resumed", [False, True])
def test_a_model_may_quote_one(resumed: bool) -> None:
    said = "[API Error: 401 …] is what it prints when the key is wrong."
    options: dict[str, Any] = {"agent_session": ID, "resume": True} if resumed else {}
    _, verdict = replay_lines("qwen", qwen(said, 56, before=500), **options)
    assert (verdict.outcome, verdict.text) == ("done", said)


# -- the rule itself --------------------------------------------------------------------------------------


class Plain(Reader):
    """Says what it is told to, and that it is done."""

    def read(self, record: Record) -> list[AnyEvent]:
        if record.get("tool"):
            self.tool_started(ToolStarted(id="1", name="t"))
            self.tool_ended(ToolEnded(id="1"))
        self.text, self.usage = record.get("text", ""), record.get("usage")
        self.cumulative = record.get("cumulative", False)
        self.succeed("done")
        return []


def judged(command: bool = False, resume: bool = False, done_pattern: str = "", **record: Any) -> str:
    session = {"agent_session": ID, "resume": True} if resume else {}
    reader = Plain(turn_of("script", command=command, done_pattern=done_pattern or None, **session))
    reader.read(record)
    verdict = reader.end(Exit(code=0), "")
    return verdict.error.kind if verdict.error else verdict.outcome


ERROR = "API Error: 429 slow down"
NONE, ZERO = None, Usage(input_tokens=0, output_tokens=0)
ASKED, SOME = Usage(input_tokens=9, output_tokens=0), Usage(input_tokens=9, output_tokens=3)


@pytest.mark.parametrize(
    ("record", "wanted"),
    [
        ({"text": "hay", "usage": SOME}, "done"),
        ({"text": "hay", "usage": NONE}, "done"),  # not every agent tells tokens
        ({"text": "hay", "usage": ZERO}, "unproven"),  # not every server does, but who knows which
        ({"text": "hay", "usage": ZERO, "tool": True}, "done"),
        ({"text": "ok: hay", "usage": ZERO, "done_pattern": "^ok"}, "done"),  # the answer is the proof
        ({"text": "hay", "usage": ZERO, "done_pattern": "^ok"}, "unproven"),
        ({"text": ERROR, "usage": ZERO, "done_pattern": "."}, "limited"),
        ({"text": "hay", "usage": ASKED}, "unproven"),
        ({"text": "", "usage": ASKED}, "unproven"),
        ({"text": "", "usage": ZERO}, "unproven"),
        ({"text": "", "usage": NONE}, "unproven"),  # nothing came of it at all
        ({"text": " \n", "usage": NONE}, "unproven"),
        ({"text": "", "usage": NONE, "tool": True}, "done"),
        ({"text": "", "usage": NONE, "command": True}, "done"),
        ({"text": "", "usage": SOME}, "done"),
        ({"text": "", "usage": SOME, "cumulative": True, "resume": True}, "unproven"),  # whose tokens these are?
        ({"text": "", "usage": ZERO, "tool": True}, "done"),
        ({"text": ERROR, "usage": NONE}, "limited"),
        ({"text": f"[{ERROR}]", "usage": ZERO}, "limited"),
        ({"text": ERROR, "usage": SOME}, "done"),
        ({"text": ERROR, "usage": NONE, "tool": True}, "done"),
        ({"text": f"It printed: {ERROR}", "usage": NONE}, "done"),
        ({"text": ERROR, "usage": SOME, "cumulative": True}, "done"),
        ({"text": ERROR, "usage": SOME, "cumulative": True, "resume": True}, "limited"),
        ({"text": "hay", "usage": ZERO, "cumulative": True, "resume": True}, "done"),
        ({"text": "We are currently experiencing high demand.\n\n", "usage": ZERO}, "overloaded"),
        ({"text": "last status: 429 Too Many Requests", "usage": ZERO}, "limited"),
        ({"text": "last status: 429 Too Many Requests", "usage": NONE}, "done"),  # a model may say so
        ({"text": "A rate limit is\n\nwhat keeps a server alive.", "usage": ZERO}, "unproven"),
        ({"text": "", "usage": ZERO, "command": True}, "done"),  # a slash command may need no model
    ],
)
def test_what_is_proof(record: dict[str, Any], wanted: str) -> None:
    assert judged(**record) == wanted


SILENT = "{} says it is done, but its model said nothing"


def test_a_silent_success_of_one_shot_agents_is_not_proven() -> None:
    result = {"type": "result", "sessionId": ID, "exitCode": 0}
    said = {"type": "result", "subtype": "success", "session_id": ID, "is_error": False, "result": ""}
    records = {"copilot": [result], "cursor": [said], "codex": [{"type": "turn.completed"}]}
    for agent, told in records.items():
        _, verdict = replay_lines(agent, lines(*told))
        assert verdict.error is not None and verdict.outcome == "unproven", (agent, verdict)
        assert (verdict.error.kind, verdict.error.message) == ("unproven", SILENT.format(agent))


def test_a_silent_success_in_a_dialog_is_not_proven() -> None:
    thought = {"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "hm"}}
    reader = AcpReader(turn_of("copilot"))
    reader.read(thought)
    reader.stopped({"stopReason": "end_turn"})
    assert reader.end(None, "").outcome == "unproven"
    assert Played().begun().ended().verdicts[0].outcome == "unproven"


def test_a_refusal_or_a_tool_that_is_told_late_shows_that_a_model_was_there() -> None:
    reader = Plain(turn_of("script"))
    reader.read({"text": ""})
    reader.denied.append(Denial(tool="Bash"))
    assert reader.end(Exit(code=0), "").outcome == "done"
