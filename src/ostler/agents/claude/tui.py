"""claude's own screen, and the file that it keeps of a conversation (`~/.claude/projects/…/ID.jsonl`)."""

import re
from collections.abc import Sequence
from typing import Any

from msgspec import structs

from ostler.agents.launches import with_attachments
from ostler.agents.messages import MessagesReader, kind_said
from ostler.agents.tui import (
    EMPTY_CELL,
    DialogOption,
    NumberedOptions,
    Question,
    TranscriptReader,
    TuiScreen,
    above,
    bright,
    last_row,
    lowest_line,
    numbered,
)
from ostler.agents.values import Record, number, table, tables, text
from ostler.errors import OstlerError
from ostler.model import AnyEvent, AskOptionKind, Launch, Turn, Usage, UsageReport

# Flags of `claude -p` that its own screen has no use for.
_HEADLESS = ("--output-format=", "--verbose", "--include-partial-messages", "--json-schema=", "--permission-mode=")
_RULE = r"^─{20,}"
_BUSY = re.compile(r"^[✢✳✶✻✽·*] .*(?:…|· Retrying in )")
_STOPPED = "[Request interrupted by user"
INTERRUPTED = r"⎿\s+Interrupted\b"
ENVIRONMENT = {
    "CLAUDE_CODE_SANDBOXED": "1",  # it does not ask whether the folder is trusted: ostler has decided what counts
    "DISABLE_AUTOUPDATER": "1",
    "CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION": "false",  # nothing stands in the box that nobody wrote
}


def tui_launch(once: Launch, turn: Turn, mode: str) -> Launch:
    """The tools and settings of one turn; what they leave open is asked, and the prompt is typed."""
    if turn.fork:
        raise OstlerError("unsupported", "claude cannot fork a conversation in its own screen", "Use --dialog")
    if turn.limits.cost_usd is not None:
        raise OstlerError("unsupported", "claude does not say in its own screen what a turn costs", "Use --dialog")
    flags = [flag for flag in once.argv[1:] if flag != "-p" and not flag.startswith(_HEADLESS)]
    env = {**once.env, **ENVIRONMENT}
    argv = (once.argv[0], *flags, f"--permission-mode={mode}")
    return structs.replace(once, argv=argv, stdin=b"", env=env)


def pasted_prompt(turn: Turn) -> str:
    """What begins with a sign of claude's own (a command, a shell, a memory) is text after something else.

    Before a slash it drops white space and all that is invisible; but not the empty braille cell.
    """
    prompt = with_attachments(turn.prompt, turn.attachments)
    if turn.command or prompt[:1] not in ("/", "!", "#"):
        return prompt
    return f"{EMPTY_CELL}{prompt}" if prompt.startswith("/") else f" {prompt}"


# -- the screen -----------------------------------------------------------------------------------------------


def box(screen: TuiScreen) -> str | None:
    """What stands after ❯ between the two lowest lines; suggestions there are faint."""
    if question(screen) is not None or (found := _box_rows(screen)) is None:
        return None
    first, last = found
    rows = [bright(screen.styled[n]) if n < len(screen.styled) else screen.rows[n] for n in range(first, last)]
    inside = [row.replace("\xa0", " ").strip() for row in rows]
    text = "\n".join((inside[0].removeprefix("❯").strip(), *inside[1:])).strip()
    suggested = len(text) == 1 and len(screen.rows[first].strip()) > 3  # the cursor stands on its first letter
    return "" if suggested else text


def _box_rows(screen: TuiScreen) -> tuple[int, int] | None:
    foot = last_row(screen.rows, _RULE)
    head = None if foot is None else last_row(screen.rows[:foot], _RULE)
    if foot is None or head is None or not screen.rows[head + 1].startswith("❯"):
        return None
    return head + 1, foot


def is_busy(screen: TuiScreen) -> bool:
    """By the line under the box, or the one that turns above it; what looks the same further up is an answer."""
    if (found := _box_rows(screen)) is None:
        return False
    if any("esc to interrupt" in row for row in screen.rows[found[1] + 1 :]):
        return True
    lowest = lowest_line(screen.rows[: found[0] - 1])
    return lowest is not None and _BUSY.match(lowest) is not None


def answer_ends(screen: TuiScreen) -> int | None:
    found = _box_rows(screen)
    return found[0] - 1 if found else None


def question(screen: TuiScreen) -> Question | None:
    listed = numbered(screen.rows)
    if listed is not None and ((found := _box_rows(screen)) is None or found[0] < listed.row):
        options = [DialogOption(name=n, keys=(str(k),), kind=_kind(n)) for k, n in enumerate(listed.names, 1)]
        return _question(screen, listed, options)
    listed = _first_run(screen.rows)  # else a list of the conversation, or in the box: below a dialog there is none
    if listed is None:
        return None
    names = enumerate(listed.names)
    return _question(screen, listed, [DialogOption(name=n, keys=listed.keys_to(k), kind=_kept(n)) for k, n in names])


def _question(screen: TuiScreen, listed: NumberedOptions, options: list[DialogOption]) -> Question:
    lines = above(screen.rows, listed.row, lambda each: re.match(_RULE, each) is not None)
    asked = [line for line in lines if not line.startswith("Tip:")]
    return Question(text="\n".join([*asked, *listed.names]), title=" · ".join(asked)[:300], options=tuple(options))


def _first_run(rows: Sequence[str]) -> NumberedOptions | None:
    """The options of a first-run screen, which have no numbers; the keys that it takes stand below them."""
    hint = last_row(rows, r"^\s+Enter to confirm\b")
    mark = None if hint is None else last_row(rows[:hint], r"^\s+❯ \S")
    if mark is None or any(re.match(_RULE, row) for row in rows[mark:]):
        return None
    first, last = mark, mark
    while first > 0 and rows[first - 1].strip():
        first -= 1
    while rows[last].strip():
        last += 1
    names = tuple(row.strip().removeprefix("❯").strip() for row in rows[first:last])
    return NumberedOptions(first, names, mark - first) if len(names) > 1 else None


def _kept(name: str) -> AskOptionKind | None:
    """A bare yes to a first-run screen (a key of the environment) is kept in claude's settings: for a person alone."""
    return None if name == "Yes" else _kind(name)


def _kind(name: str) -> AskOptionKind | None:
    """What an option means. One that is kept in settings, or widens the mode, is for a person at the terminal."""
    if name == "Yes" or name.startswith(("Yes, I trust", "Yes, proceed")):
        return "allow_once"
    if "during this session" in name:
        return "allow_always"
    return "reject_once" if re.match(r"No\b", name) else None


# -- the file -------------------------------------------------------------------------------------------------


def transcripts(turn: Turn) -> tuple[str, ...]:
    return (f".claude/projects/*/{turn.agent_session}.jsonl",) if turn.agent_session else ()


class MessagesTranscript(TranscriptReader, MessagesReader):
    """The same messages as claude prints, and what stands in the place of its result. A subclass reads them all."""

    def __init__(self, turn: Turn) -> None:
        super().__init__(turn)
        self._usages: dict[str, Record] = {}  # message → what it used; each of its blocks says the same

    def read(self, record: Record) -> list[AnyEvent]:
        if record.get("isSidechain") or record.get("isMeta"):
            return []
        message = table(record.get("message"))
        match record.get("type"):
            case "user":
                return self._user_message(record, message)
            case "assistant" if self.prompted:
                return self._agent_message(record, message)
        return []

    def _user_message(self, record: Record, message: Record) -> list[AnyEvent]:
        said = _words(message.get("content"))
        if not self.prompted:
            if not said or not self.take_prompt(said):
                return []
            self.agent_session = text(record.get("sessionId")) or None
            return [self.started()]
        if said.startswith(_STOPPED):
            self.interrupted = True
            return []
        result = record.get("toolUseResult")
        if isinstance(result, str) and result.startswith("User rejected"):
            self._rejected(message)
        return self._user({"message": message, "tool_use_result": result})

    def _rejected(self, message: Record) -> None:
        for block in tables(message.get("content")):
            started = self.open_tools.get(id := text(block.get("tool_use_id")))
            if started is not None:
                self.refuse(id, started.name, started.input, "it was not allowed", None)

    def _agent_message(self, record: Record, message: Record) -> list[AnyEvent]:
        if record.get("isApiErrorMessage"):
            return self._api_error(record, message)
        self.model = self.model or text(message.get("model")) or None
        events = self._assistant({"message": message})
        self._count(message)
        stop = text(message.get("stop_reason"))
        if stop in ("tool_use", "pause_turn", ""):
            self.result = None  # it goes on, whatever it said before
        elif stop in ("end_turn", "stop_sequence"):
            self._ended(f"stop_reason {stop}")
        else:
            self.fail(f"stop_reason {stop}", "unproven", f"claude stopped in the middle: {stop}")
        return [*events, *([UsageReport(usage=self.usage)] if self.usage else [])]

    def _ended(self, evidence: str) -> None:
        if self.result is None:
            self.succeed(evidence)

    def _api_error(self, record: Record, message: Record) -> list[AnyEvent]:
        said = _words(message.get("content"))
        kind = kind_said(record.get("apiErrorStatus"), said)
        self.fail("an error of the API", kind, said, self.hint(kind))
        return []

    def _count(self, message: Record) -> None:
        self._usages[text(message.get("id"))] = table(message.get("usage"))
        used = self._usages.values()
        cached = _sum(used, "cache_read_input_tokens")
        self.usage = Usage(
            input_tokens=_sum(used, "input_tokens") + cached + _sum(used, "cache_creation_input_tokens"),
            output_tokens=_sum(used, "output_tokens"),
            cached_tokens=cached,
        )


def _sum(used: Any, name: str) -> int:
    return sum(number(each.get(name)) or 0 for each in used)


def _words(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(text(block.get("text")) for block in tables(content) if block.get("type") == "text")
