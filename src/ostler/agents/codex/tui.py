"""codex's own screen, and the file that it keeps of a conversation (`~/.codex/sessions/…/rollout-*-ID.jsonl`)."""

import re

from ostler.access import Access
from ostler.agents.codex.access import PROFILE, PROFILES, UNREADABLE, profile_name
from ostler.agents.codex.hooks import hook_flags
from ostler.agents.codex.launch import trust_flag
from ostler.agents.codex.reader import kind_of_message, words_of
from ostler.agents.codex.toml import toml
from ostler.agents.launches import refuse_tool_lists, with_attachments
from ostler.agents.reader import decode
from ostler.agents.tool_input import title_of
from ostler.agents.tui import (
    EMPTY_CELL,
    DialogOption,
    Question,
    Status,
    TranscriptReader,
    TuiScreen,
    bright,
    last_row,
    lowest_line,
    numbered,
    unframed,
)
from ostler.agents.values import UUID, Record, number, table, tables, text
from ostler.errors import OstlerError, quoted
from ostler.model import (
    AnyEvent,
    AskOptionKind,
    Host,
    Launch,
    Thought,
    ToolEnded,
    ToolStarted,
    Turn,
    Usage,
    UsageReport,
)

# What the records of a turn of one process call these tools.
NAMES = {
    **dict.fromkeys(("exec_command", "shell", "shell_command", "local_shell"), "command_execution"),
    "apply_patch": "file_change",
}
_FAILED = re.compile(r"exited with code [1-9]|^Exit code: [1-9]|\baborted by user", re.M)
INTERRUPTED = r"Conversation interrupted"
_BOX = r"^› "
_BUSY = re.compile(r"^[•◦] .*\((?:\d+[hm] )*\d+s • esc to interrupt\b")
_HINT = r"(?i)^\s*(?:press )?(?:enter|esc)\b"  # the last row of a dialog says which keys it takes
_LOADING = r"^\s+(?:loading|Resuming session…)$"
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_ASKS: dict[Access, str] = {"read": "never", "write": "never", "full": "on-request"}
# First-run screens that are known word by word: title, options, and the one that grants and changes nothing.
_SETTLED: dict[tuple[str, ...], int] = {("Open restricted", "Quit"): 0, ("Try new model", "Use existing model"): 1}


def tui_launch(turn: Turn, host: Host) -> Launch:
    """Under `read` and `write` it never asks, and a permission profile keeps it in its sandbox whatever rules allow;
    under `full` it works in its sandbox and asks to leave it.
    """
    refuse_tool_lists(turn)
    if turn.fork:
        raise OstlerError("unsupported", "codex cannot fork a conversation in its own screen", "Use --dialog")
    if turn.mcp:
        raise OstlerError("unsupported", "codex does not support MCP servers in its own screen", "Use --dialog")
    flags = [trust_flag(turn, host), *_confinement(turn), f"--config=approval_policy={toml(_ASKS[turn.access])}"]
    flags += ['--config=approvals_reviewer="user"', "--config=check_for_update_on_startup=false"]
    flags += [f"--model={turn.model}"] if turn.model else []
    flags += ["--config=features.plugins=false"] if turn.lean else []
    files: dict[str, bytes] = {}
    if turn.system and turn.system_mode == "replace":
        files[f"{host.private}/system.md"] = turn.system.encode()
        flags.append("--config=model_instructions_file=" + toml(f"{host.private}/system.md"))
    elif turn.system:
        flags.append("--config=developer_instructions=" + toml(turn.system))
    flags += hook_flags(turn, host, files)
    return Launch(argv=(host.executable, *flags, *_conversation(turn)), files=files)


def _confinement(turn: Turn) -> list[str]:
    if turn.access == "full":
        return ["--sandbox=workspace-write"]
    name = profile_name(turn)
    rules = f'extends={toml(PROFILES[turn.access])},filesystem={{{toml(UNREADABLE)}="deny"}},network={{enabled=false}}'
    return [f"--config=permissions={{{toml(name)}={{{rules}}}}}", f"--config=default_permissions={toml(name)}"]


def _conversation(turn: Turn) -> list[str]:
    if not turn.resume:
        return []
    if not UUID.fullmatch(turn.agent_session or ""):
        raise OstlerError("bad_request", f"{quoted(turn.agent_session)} is not an id of a codex conversation")
    return ["resume", turn.agent_session or ""]


def pasted_prompt(turn: Turn) -> str:
    prompt = with_attachments(turn.prompt, turn.attachments)
    return f"{EMPTY_CELL}{prompt}" if prompt[:1] in ("/", "!", "@", "$") and not turn.command else prompt


# -- the screen -----------------------------------------------------------------------------------------------


def box(screen: TuiScreen) -> str | None:
    """What stands after the lowest ›, down to a blank row; its placeholder is faint."""
    if question(screen) is not None or (first := last_row(screen.rows, _BOX)) is None or _is_loading(screen):
        return None
    inside: list[str] = []
    for n in range(first, len(screen.rows)):
        if inside and not screen.rows[n].strip():
            break
        inside.append(bright(screen.styled[n]) if n < len(screen.styled) else screen.rows[n])
    said = "\n".join((inside[0].strip().removeprefix("›").strip(), *(row.strip() for row in inside[1:]))).strip()
    return "" if said.startswith("Ask Codex to do anything") else said


def _is_loading(screen: TuiScreen) -> bool:
    """Before it has loaded it draws a box that takes nothing. Not always can that be seen: `idle` tells more."""
    said = [row for row in screen.rows if row[:1].strip()]
    return len(said) == 1 and last_row(screen.rows, _LOADING) is not None


def is_busy(screen: TuiScreen) -> bool:
    """By the line above the box, which is not there while an answer is written: then its title tells."""
    lowest = lowest_line(screen.rows[: last_row(screen.rows, _BOX)])
    return lowest is not None and _BUSY.match(lowest) is not None


def title_status(title: str) -> Status | None:
    if not title:
        return None
    if title.startswith("[ ! ] Action Required"):
        return "asking"
    return "busy" if title[0] in _SPINNER else "ready"


def answer_ends(screen: TuiScreen) -> int | None:
    return last_row(screen.rows, _BOX)


def question(screen: TuiScreen) -> Question | None:
    """A list with a mark, and the keys below it: neither a list of the conversation nor one in the box has these."""
    marked = last_row(screen.rows, r"^[›>] ")
    if marked is None or not re.match(r"[›>] \d", screen.rows[marked]):
        return None
    if last_row(screen.rows[marked:], _HINT) is None:
        return None
    listed = numbered(screen.rows)
    row, names = (listed.row, listed.names) if listed else (marked, ())  # of a long list only a part is shown
    lines = [line for each in screen.rows[max(0, row - 14) : row] if (line := unframed(each))]
    options = tuple(DialogOption(name=n, keys=listed.keys_to(k), kind=_kind(n)) for k, n in enumerate(names) if listed)
    settled = _SETTLED.get(names)
    title = next((line for line in lines if line.endswith("?")), lines[0] if lines else "")
    return Question(
        text="\n".join([*lines, *names]),
        title=title[:300],
        options=options,
        settled_by=options[settled] if settled is not None else None,
    )


def _kind(name: str) -> AskOptionKind | None:
    """What an option means. One that codex keeps in a file of rules is for a person at the terminal."""
    if re.match(r"Yes, (proceed|run)|Yes \(y\)|Yes$", name):
        return "allow_once"
    if "for this session" in name or "this session" in name:
        return "allow_always"
    return "reject_once" if re.match(r"No\b", name) else None


# -- the file -------------------------------------------------------------------------------------------------


def transcripts(turn: Turn) -> tuple[str, ...]:
    id = turn.agent_session if turn.resume else ""
    return (f".codex/sessions/*/*/*/rollout-*{id}.jsonl",)


class CodexTranscript(TranscriptReader):
    """Events of the turn and items of the conversation, each wrapped in a `payload`."""

    def __init__(self, turn: Turn) -> None:
        super().__init__(turn)
        self.agent_session = turn.agent_session if turn.resume else None
        self._wider = ""  # how it works with more than its access

    def read(self, record: Record) -> list[AnyEvent]:
        payload = table(record.get("payload"))
        match record.get("type"), payload.get("type"):
            case "session_meta", _:
                self.agent_session = text(payload.get("id")) or None
            case "turn_context", _:
                self.model = text(payload.get("model")) or self.model
                self._wider = _wider(self.turn.access, payload)
            case "response_item", "message" if payload.get("role") == "user" and not self.prompted:
                return [self.started()] if self.take_prompt(_words(payload)) else []
            case ("event_msg" | "response_item") as kind, _ if self.prompted:
                return self._event(payload) if kind == "event_msg" else self._item(payload)
        return []

    def _event(self, event: Record) -> list[AnyEvent]:
        match event.get("type"):
            case "token_count":
                return self._counted(table(event.get("info")))
            case "task_complete":
                self._completed(text(table(event.get("error")).get("message")))
            case "turn_aborted":
                self.interrupted = True
        return []

    def _completed(self, wrong: str) -> None:
        """The end of the turn; an error of the API stands in it, and the state on the screen stays `working`."""
        if self._wider:
            message = f"codex was not kept to access {self.turn.access}: {self._wider}"
            self.fail("task_complete", "denied", message, "Use --dialog, or run it without --transport")
        elif wrong:
            self.fail("task_complete with an error", kind_of_message(wrong), words_of(wrong)[:2000])
        elif self.result is None:
            self.succeed("task_complete")

    def _item(self, item: Record) -> list[AnyEvent]:
        id = text(item.get("call_id"))
        match item.get("type"):
            case "message" if item.get("role") == "assistant" and (said := _words(item)):
                return [self.whole(said, text(item.get("id")))]
            case "reasoning":
                thoughts = [text(part.get("text")) for part in tables(item.get("summary"))]
                return [Thought(text=said) for said in thoughts if said]
            case "function_call" | "custom_tool_call" | "local_shell_call":
                return [self.tool_started(_call(id, item))]
            case "function_call_output" | "custom_tool_call_output" if id in self.open_tools:
                output = _output(item.get("output"))
                denied = "rejected by user" in output
                failed = denied or _FAILED.search(output) is not None
                return [self.tool_ended(ToolEnded(id=id, ok=not failed, output=output, denied=denied))]
        return []

    def _counted(self, info: Record) -> list[AnyEvent]:
        used = table(info.get("last_token_usage"))
        if not used:
            return []
        before = self.usage or Usage(input_tokens=0, output_tokens=0, cached_tokens=0, reasoning_tokens=0)
        self.usage = Usage(
            input_tokens=(before.input_tokens or 0) + (number(used.get("input_tokens")) or 0),
            output_tokens=(before.output_tokens or 0) + (number(used.get("output_tokens")) or 0),
            cached_tokens=(before.cached_tokens or 0) + (number(used.get("cached_input_tokens")) or 0),
            reasoning_tokens=(before.reasoning_tokens or 0) + (number(used.get("reasoning_output_tokens")) or 0),
        )
        return [UsageReport(usage=self.usage)]


def _wider(access: Access, context: Record) -> str:
    """How a turn is confined less than was asked for, by what codex itself writes down; "" where it is not."""
    if access == "full":
        return ""
    profile = text(table(context.get("active_permission_profile")).get("id"))
    if not profile.startswith(PROFILE):
        return f"its permissions are {profile or 'unknown'}"
    asks = text(context.get("approval_policy"))
    return "" if asks == _ASKS[access] else f"its approval policy is {quoted(asks)}"


def _words(message: Record) -> str:
    return "\n".join(text(part.get("text")) for part in tables(message.get("content")))


def _call(id: str, item: Record) -> ToolStarted:
    name = NAMES.get(text(item.get("name")) or "shell", text(item.get("name")))
    given = text(item.get("arguments")) or text(item.get("input"))
    input = decode(given.encode()) if item.get("type") == "function_call" else {"input": given}
    return ToolStarted(id=id, name=name, title=title_of(name, input) or given[:200], input=input)


def _output(output: object) -> str:
    if isinstance(output, str):
        inner = decode(output.encode()) if output.startswith("{") else None
        return text(table(inner).get("output")) or output
    return "\n".join(text(part.get("text")) for part in tables(output))
