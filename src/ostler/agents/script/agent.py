"""script: the scripted agent that ships with ostler, and any program that writes ostler's native records.

The format stands in `ostler.testing.agent`.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, get_args

import msgspec

from ostler.agents.adapter import Agent, Conversation, State, tool_names
from ostler.agents.dialog import DialogFace
from ostler.agents.hooks import HookFace, hook_settings
from ostler.agents.launches import with_attachments
from ostler.agents.reader import Reader
from ostler.agents.script.dialog import ScriptDialog, dialog_launch
from ostler.agents.script.tui import (
    INTERRUPTED,
    ScriptTranscript,
    answer_ends,
    box,
    is_busy,
    pasted_prompt,
    question,
    transcripts,
    tui_launch,
)
from ostler.agents.tui import TuiFace
from ostler.agents.values import Record
from ostler.errors import ErrorKind
from ostler.model import (
    TOOL_WORDS,
    Answered,
    AnyEvent,
    Asked,
    Attachment,
    Denial,
    Hook,
    Host,
    Launch,
    Limited,
    Notice,
    Plan,
    Raw,
    Text,
    TextDelta,
    Thought,
    ThoughtDelta,
    ToolEnded,
    ToolStarted,
    Turn,
    Usage,
    UsageReport,
)

# What an agent may say of itself; started, ended, raw and terminals are ostler's to tell.
_Told = (
    Text
    | TextDelta
    | Thought
    | ThoughtDelta
    | ToolStarted
    | ToolEnded
    | Plan
    | Asked
    | Answered
    | UsageReport
    | Limited
    | Notice
    | Hook
)
HOOKS = HookFace(
    events=(
        *("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Notification", "Stop", "StopFailure"),
        "SessionEnd",
    ),
    ends=("Stop", "StopFailure"),
    by="`--hooks`",
)
_KINDS: tuple[ErrorKind, ...] = get_args(ErrorKind)


def launch(turn: Turn, host: Host) -> Launch:
    argv = [host.executable, f"--access={turn.access}"]
    files: dict[str, bytes] = {}
    if turn.resume and turn.agent_session:
        argv.append(f"--resume={turn.agent_session}")
        argv += ["--fork"] if turn.fork else []
    elif turn.agent_session:
        argv.append(f"--session-id={turn.agent_session}")
    if turn.model:
        argv.append(f"--model={turn.model}")
    if turn.system:
        argv.append(f"--system={turn.system}")
        argv += ["--system-mode=replace"] if turn.system_mode == "replace" else []
    if turn.schema is not None:
        path = f"{host.private}/schema.json"
        files[path] = msgspec.json.encode(turn.schema)
        argv.append(f"--schema={path}")
    argv += [f"--attach={a.path}" for a in turn.attachments if a.content is None]
    argv += [f"--allow-tool={name}" for name in tool_names(AGENT, turn.tools_allowed)]
    argv += [f"--deny-tool={name}" for name in tool_names(AGENT, turn.tools_denied)]
    if host.callback is not None:
        path = f"{host.private}/hooks.json"
        files[path] = msgspec.json.encode({"hooks": hook_settings(HOOKS, turn, host, files)})
        argv.append(f"--hooks={path}")
    inline: list[Attachment] = [a for a in turn.attachments if a.content is not None]
    return Launch(argv=tuple(argv), stdin=with_attachments(turn.prompt, inline).encode(), files=files)


class ScriptReader(Reader):
    """Reads native records. Keeps what was streamed until its whole text comes, or owes it at the end."""

    def __init__(self, turn: Turn) -> None:
        super().__init__(turn)
        self._streamed: dict[tuple[str, str], list[str]] = {}  # (text or thought, id) → deltas

    def read(self, record: Record) -> list[AnyEvent]:
        match record:
            case {"type": "init", "session": str(session)}:
                model = record.get("model")
                self.agent_session, self.model = session, model if isinstance(model, str) else None
                return [self.started()]
            case {"type": "denied", "tool": str()}:
                return self._denied(record)
            case {"type": "result", "ok": bool(ok)}:
                return self._result(record, ok)
            case {"kind": str()}:
                return self._event(record)
        return [Raw(record=record)]

    def flush(self) -> list[AnyEvent]:
        return [*self._owed(), *super().flush()]

    def _event(self, record: Record) -> list[AnyEvent]:
        own = {key: value for key, value in record.items() if key not in ("seq", "at", "turn") and value is not None}
        try:
            event = msgspec.convert(own, _Told)
        except msgspec.ValidationError:
            return [Raw(record=record)]
        match event:
            case TextDelta():
                self._streamed.setdefault(("text", event.id), []).append(event.text)
            case ThoughtDelta():
                self._streamed.setdefault(("thought", event.id), []).append(event.text)
            case Thought():
                self._streamed.pop(("thought", event.id), None)
            case Text():
                self._streamed.pop(("text", event.id), None)
                self.text = event.text
            case ToolStarted():
                self.tool_started(event)
            case ToolEnded():
                self.tool_ended(event)
            case UsageReport():
                self.usage, self.cost_usd = event.usage, event.cost_usd
        return [event]

    def _owed(self) -> list[AnyEvent]:
        """The whole of each text or thought that was only streamed."""
        owed: list[AnyEvent] = []
        for (what, id), pieces in self._streamed.items():
            text = "".join(pieces)
            owed.append(self.whole(text, id) if what == "text" else Thought(text=text, id=id))
        self._streamed.clear()
        return owed

    def _denied(self, record: Record) -> list[AnyEvent]:
        try:
            fields = {key: value for key, value in record.items() if key != "type" and value is not None}
            self.denied.append(msgspec.convert(fields, Denial))
        except msgspec.ValidationError:
            return [Raw(record=record)]
        return []

    def _result(self, record: Record, ok: bool) -> list[AnyEvent]:
        owed = self._owed()
        if isinstance(text := record.get("text"), str) and text != self.text:
            owed.append(self.whole(text))
        if isinstance(steps := record.get("steps"), int) and not isinstance(steps, bool):
            self.steps = steps
        self.structured = record.get("structured")
        try:
            self.usage = msgspec.convert(record["usage"], Usage) if record.get("usage") else self.usage
        except msgspec.ValidationError:
            pass  # tokens that cannot be read are no reason to doubt the result
        if isinstance(cost := record.get("cost_usd"), int | float) and not isinstance(cost, bool):
            self.cost_usd = float(cost)
        if ok:
            self.succeed("result: ok")
        else:
            self._failed(record.get("error"))
        return owed

    def _failed(self, error: Any) -> None:
        problem = error if isinstance(error, dict) else {}
        message = problem.get("message")
        self.fail(
            "result: not ok",
            next((kind for kind in _KINDS if kind == problem.get("kind")), "crashed"),
            message if isinstance(message, str) else "the scripted agent failed",
            hint if isinstance(hint := problem.get("hint"), str) else "",
        )


def conversation(path: str, records: Sequence[Record]) -> Conversation | None:
    """A conversation from the agent's own file: a head, then prompts and answers."""
    if not records or not isinstance(id := records[0].get("session"), str):
        return None
    folder = records[0].get("folder")
    titles = [r["prompt"] for r in records if isinstance(r.get("prompt"), str) and r["prompt"].strip()]
    return Conversation(
        id=id,
        folder=folder if isinstance(folder, str) else "",
        title=titles[0].strip().splitlines()[0][:200] if titles else "",
    )


class ScriptTranscriptReader(ScriptTranscript, ScriptReader):
    def read_record(self, record: Record) -> list[AnyEvent]:
        return ScriptReader.read(self, record)


AGENT = Agent(
    name="script",
    title="Scripted agent",
    monogram="sc",
    hue=70,
    module="ostler.testing.agent",
    binaries=("ostler-script-agent",),
    install="comes with ostler: pip install ostler",
    launch=launch,
    reader=ScriptReader,
    models=("script-*", "scripted"),
    needs=("--access", "--session-id", "--resume"),
    env=("OSTLER_SCENARIO", "OSTLER_SCRIPT_*"),
    access={
        "read": "--access=read: its write step is refused",
        "write": "--access=write: it writes in the folder only",
        "full": "--access=full",
    },
    unconfined={
        "read": "commands of a scenario run as they are",
        "write": "commands of a scenario run as they are",
    },
    tools={word: (word,) for word in TOOL_WORDS},
    forks=True,
    chooses_id=True,
    schema="native",
    system="flag",
    replaces_system=True,
    tool_lists=True,
    images="native",
    deltas=True,
    cost=True,
    dialog=DialogFace(
        launch=dialog_launch(launch),
        dialog=partial(ScriptDialog, reader_of=ScriptReader),
        steers=True,
        protocol="native",
        access="`--dialog`; it asks what its scenario says",
    ),
    in_terminal=launch,
    flags_at=1,
    refused_flags=(
        "access",
        "allow-tool",
        "deny-tool",
        "resume",
        "session-id",
        "fork",
        "dialog",
        "acp",
        "tui",
        "hooks",
    ),
    hooks=HOOKS,
    tui=TuiFace(
        launch=tui_launch(launch),
        reader=ScriptTranscriptReader,
        prompt=pasted_prompt,
        transcripts=transcripts,
        box=box,
        is_busy=is_busy,
        question=question,
        answer_ends=answer_ends,
        states=True,
        interrupt_asking=("ctrl+c",),
        interrupted=INTERRUPTED,
        access="`--tui`; it asks what its scenario says",
    ),
    homes={"OSTLER_SCRIPT_HOME": ".local/state/ostler-script"},
    state=State(kept=(".local/state/ostler-script",)),
    conversations=(".local/state/ostler-script/sessions/*.ndjson",),
    conversation=conversation,
)
