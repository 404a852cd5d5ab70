"""What another agent is told when it takes over a session: what was asked and done, the plan, the changes. Pure."""

from collections.abc import Sequence

from msgspec import Struct

from ostler.model import Plan, Session, TurnRow

_PROMPTS = 10  # of the last turns
_PROMPT = 2000  # characters of each
_ANSWER = 4000
_DIFF = 20_000


class HandedWork(Struct, frozen=True, kw_only=True):
    """What is known of a session that is handed over. `diffs` are of its turns, the newest last."""

    session: Session
    turns: Sequence[TurnRow]
    plan: Plan | None = None
    diffs: Sequence[str] = ()


def handover_prompt(work: HandedWork, instruction: str = "") -> str:
    """The first prompt of the session that goes on. `instruction` says what to do next; without it, the same."""
    parts = [
        f"You take over work that another agent ({work.session.agent}) began in this folder. "
        "Its conversation is not yours: this is what you need to know of it.",
        _asked(work.turns),
        _done(work.turns),
        _plan(work.plan),
        _changes(work.diffs),
        f"## What to do now\n\n{instruction.strip() or _GO_ON}",
    ]
    return "\n\n".join(part for part in parts if part)


_GO_ON = (
    "Look at the state of the files first, since the changes above may be incomplete. Then go on where the other agent "
    "stopped, and finish what was asked last."
)


def _asked(turns: Sequence[TurnRow]) -> str:
    prompts = [cut(row.turn.prompt.strip(), _PROMPT) for row in turns][-_PROMPTS:]
    left = len(turns) - len(prompts)
    lines = [f"(and {left} before)"] if left > 0 else []
    lines += [f"{n}. {prompt}" for n, prompt in enumerate(prompts, left + 1)]
    return "## What was asked\n\n" + "\n".join(lines) if prompts else ""


def _done(turns: Sequence[TurnRow]) -> str:
    """How the last turn ended, and the last answer that there is."""
    ended = [row.envelope for row in turns if row.envelope is not None]
    if not ended:
        return ""
    last = ended[-1]
    how = f"The last turn is {last.outcome}" + (f": {last.error.message}" if last.error else "") + "."
    answer = next((envelope.text.strip() for envelope in reversed(ended) if envelope.text.strip()), "")
    return "## What was done\n\n" + how + (f"\n\nIts last answer:\n\n{cut(answer, _ANSWER)}" if answer else "")


def _plan(plan: Plan | None) -> str:
    if plan is None or not plan.steps:
        return ""
    marks = {"done": "x", "active": "~", "pending": " "}
    return "## Its plan\n\n" + "\n".join(f"- [{marks[step.status]}] {step.text}" for step in plan.steps)


def _changes(diffs: Sequence[str]) -> str:
    text = "\n".join(diff.rstrip("\n") for diff in diffs if diff.strip())
    return f"## What it changed\n\n```diff\n{cut(text, _DIFF)}\n```" if text else ""


def cut(text: str, most: int) -> str:
    """The beginning and the end of a long text: what was asked stands at one, what came of it at the other."""
    if len(text) <= most:
        return text
    head, tail = most * 2 // 3, most // 3
    return f"{text[:head]}\n[… {len(text) - head - tail} characters left out …]\n{text[-tail:]}"
