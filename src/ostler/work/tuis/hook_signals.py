"""What the hooks of a TUI say of the turn that it runs. Pure.

The process calls back with one token for many turns: which prompt a hook is about is told by the id that the agent
gives each prompt, and else by their order. A late or a doubled hook of a turn before says nothing of this one.
"""

from collections.abc import Iterable
from typing import Any

from ostler.agents.hooks import ANSWER, HookFace
from ostler.agents.tui import squeezed
from ostler.agents.values import text
from ostler.model import AnyEvent, Hook
from ostler.work.hooks.hook_turn import Fired, fired_hook
from ostler.work.hooks.intake import TEXT_LIMIT
from ostler.work.tuis.evidence import Says


class HookSignals:
    """Of one turn. `past` are the ids of prompts before; this one's is added to them."""

    def __init__(self, face: HookFace, sent: str, past: set[str]) -> None:
        self._face, self._sent, self._past = face, squeezed(sent), past
        self._before = frozenset(past)
        self._id = ""
        self._submitted = False
        self.session = ""  # the agent's own id of the conversation
        self.answer = ""
        self.failure = ""  # what it said of an error

    def state_of(self, fired: Fired) -> Says | None:
        """None: nothing, or it is not of this turn."""
        payload = fired.payload
        if fired.starts:
            self.session = text(payload.get("session_id"))
            return None
        id = self._id_in(payload)
        if id in self._before or (id and self._id and id != self._id):
            return None
        if fired.submits:
            return self._prompt(payload, id)
        if fired.uses_tool:
            return "busy" if self._submitted else None
        if not fired.ends or not (id or self._submitted):
            return None
        self._past.update((id,) if id else ())
        return self._end(fired)

    def resume(self, kept: Iterable[AnyEvent]) -> Says | None:
        """Goes on with a turn of which another process was told before; what its hooks said last.

        `kept` is what the journal has of it.
        """
        hooks = [fired_hook(self._face, e.name, e.payload, e.at) for e in kept if isinstance(e, Hook) and not e.late]
        last: Says | None = None
        for fired in hooks:
            if fired.submits and self._is_begun_by(text(fired.payload.get("prompt"))):
                self._submitted, self._id, last = True, self._id_in(fired.payload), "submitted"
            else:
                last = self.state_of(fired) or last
        return last

    def _is_begun_by(self, prompt: str) -> bool:
        """By as much of it as the journal keeps."""
        begin = squeezed(prompt[:TEXT_LIMIT])
        return bool(begin) and (self._sent == begin or (len(prompt) > TEXT_LIMIT and self._sent.startswith(begin)))

    def _prompt(self, payload: dict[str, Any], id: str) -> Says | None:
        """Only the one that was sent: people type prompts, too, and qwen tells an empty one after each tool."""
        if squeezed(text(payload.get("prompt"))) != self._sent:
            return None
        self._submitted, self._id = True, id
        self._past.update((id,) if id else ())
        return "submitted"

    def _id_in(self, payload: dict[str, Any]) -> str:
        return next((text(payload[name]) for name in self._face.prompt_ids if text(payload.get(name))), "")

    def _end(self, fired: Fired) -> Says:
        if fired.proves:
            self.answer = text(fired.payload.get(ANSWER))
            return "done"
        if not self._face.proves:
            return "ready"  # over, but nothing says how
        self.failure = text(fired.payload.get("error")) or text(fired.payload.get(ANSWER))
        return "failed"
