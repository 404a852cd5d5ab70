"""The way of one turn: attempts (fallback, repair), proof, diff, envelope, and exactly one end."""

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs
from msgspec.json import encode, format

from ostler.agents import AGENTS, Agent, agent_for, any_acp
from ostler.errors import OstlerError, kind_of_os_error
from ostler.process import Warden
from ostler.settings import Settings
from ostler.store.files import private_folder, turn_folder
from ostler.words import (
    EVENT_ENCODER,
    AnyEvent,
    Asked,
    Ended,
    Envelope,
    Notice,
    Outcome,
    Problem,
    Session,
    Started,
    Turn,
    TurnRow,
    Verdict,
)
from ostler.work import diff, schema
from ostler.work.artifacts import Artifacts, Recording
from ostler.work.ask_rules import leads_out, rule_for
from ostler.work.calls import Calls
from ostler.work.carry import Attempt, Carried, Stop, carry, nothing
from ostler.work.dialogs import Dialogs
from ostler.work.edits import Edits
from ostler.work.envelope import Findings, Sums, counters_before, envelope_of
from ostler.work.journal import Journal
from ostler.work.live_dialog import Around
from ostler.work.prepare import Setup, prepare
from ostler.work.servers import without_values

if TYPE_CHECKING:
    from ostler.work.turn_terminal import TurnTerminal

_PAGE = 4096  # events at a time
FALLBACK_KINDS = ("missing", "unauthenticated", "limited", "overloaded")


class TurnRun:
    """One turn from its first event to its envelope. `run` ends it exactly once, whatever happens."""

    def __init__(
        self,
        setup: Setup,
        warden: Callable[[], Awaitable[Warden]],
        session: Session,
        first: Attempt,
        *,
        next_seq: int,
        notices: tuple[Notice, ...] = (),
        fallback: tuple[str, ...] = (),
        recording: Recording | None = None,
        dialogs: Dialogs | None = None,
    ) -> None:
        self.setup = setup
        self.warden = warden
        self.dialogs = dialogs
        self.session = session
        self.turn: Turn = first.turn
        self.first = first
        self.notices = notices
        self.fallback = fallback
        self.recording = recording
        self.stop = Stop()
        self.started_at = time.time()
        self.redactor = first.redactor
        self.journal = Journal(setup.store, session.id, self.turn.id, next_seq, self.redactor)
        self.sums = Sums()
        self.served_by = first.served_by
        self.artifacts: Artifacts | None = None
        self.before: diff.Before | None = None
        self.edits: Edits | None = None
        self.terminal: TurnTerminal | None = None  # where it can be watched, if it has no terminal of its own
        self.running = False

    def cancel(self, why: str = "cancelled") -> None:
        self.stop.wish(Problem(kind="cancelled", message=why))

    async def run(self) -> Envelope:
        """Carries the turn to its end; the only way out is an envelope, or a store that cannot be written."""
        try:
            carried = await self._body()
        except asyncio.CancelledError:
            carried = _failed("cancelled", Problem(kind="cancelled", message="cancelled"))
        except OstlerError as error:
            problem = Problem(kind=error.kind, message=error.message, hint=error.hint, retry_at=error.retry_at)
            carried = _failed("failed", problem)
        except OSError as error:
            carried = _failed("failed", Problem(kind=kind_of_os_error(error, "crashed"), message=str(error)))
        except Exception as error:
            carried = _failed("crashed", Problem(kind="crashed", message=f"ostler failed: {error!r}"))
        envelope: Envelope | None = None
        try:
            envelope = await self._finish(carried)
            return envelope
        except BaseException as error:
            self.journal.fail(error)
            raise
        finally:
            if self.terminal is not None:
                await self.terminal.end(envelope)

    # -- the attempts

    async def _body(self) -> Carried:
        if self.terminal is not None:
            await self.terminal.open()
            self.journal.heard = self.terminal.tell
        folder = turn_folder(self.setup.store.folder, self.session.id, self.turn.id)
        self.artifacts = Artifacts(folder, self.redactor, self.recording)
        self.artifacts.write("prompt", "prompt.txt", self.redactor.text(self.turn.prompt).encode())
        if self.turn.access != "read":
            self.before = await asyncio.to_thread(self._look, private_folder(folder / "before"))
            self.edits = Edits(self.turn.folder, self.before)
        await self.journal.add(self.notices)
        carried = await self._attempt(self.first)
        carried = await self._fall_back(carried)
        return await self._by_schema(carried)

    def _look(self, scratch: Path) -> diff.Before:
        exclude = frozenset(self.first.launch.folder_files)
        return diff.look(self.turn.folder, str(scratch), exclude, env=self.setup.environ)

    async def _attempt(self, attempt: Attempt) -> Carried:
        assert self.artifacts is not None
        self.turn, self.served_by = attempt.turn, attempt.served_by
        if self.recording is not None:
            prompt = self.redactor.text(attempt.turn.prompt)
            self.recording.begin(agent=attempt.records_of, argv=self.redactor.clean(attempt.launch.argv), prompt=prompt)
        await self.journal.add(Notice(text=text, code="launch") for text in attempt.launch.notices)
        carried = await self._carry(attempt, self.artifacts)
        last = self.setup.store.last_ended(self.session.id)
        before = self.sums.counters or counters_before(last, attempt.turn.agent_session)
        self.sums.add(attempt.turn, carried.verdict, before)
        return carried

    async def _carry(self, attempt: Attempt, artifacts: Artifacts) -> Carried:
        if attempt.in_terminal is not None:
            return await attempt.in_terminal(attempt, self._add, artifacts, self.stop)
        if attempt.dialog is None or self.dialogs is None:
            if self.dialogs is not None:
                await self.dialogs.close(self.session.id)  # one process at a time is at a conversation
            shown = self.terminal.raw if self.terminal is not None else nothing
            return await carry(attempt, await self.warden(), self._add, artifacts, self.stop, shown)
        settings = self.setup.settings
        around = Around(
            add=self._add,
            artifacts=artifacts,
            stop=self.stop,
            asking=self._asking,
            decide=lambda asked: self._decide(asked, attempt.agent),
            ask_limit=settings.ask_limit,
            calls=Calls(self.turn),
        )
        return await self.dialogs.carry(attempt, around)

    def _decide(self, asked: Asked, agent: Agent) -> tuple[str, str]:
        """What needs nobody: an edit that a link leads out of the folder is beyond `write`; then the rules."""
        folder = self.turn.folder
        if self.turn.access == "write" and leads_out(asked, folder):
            return "deny", "access write"
        return rule_for(self.setup.settings.asks, asked, agent=agent.name, folder=folder, tools=agent.tools)

    async def _asking(self, asking: bool) -> None:
        self.running = True
        await self.setup.store.change_turn(self.turn.id, "asking" if asking else "running")

    async def _fall_back(self, carried: Carried) -> Carried:
        """The next agent takes the turn, as long as nothing was done yet."""
        for name in self.fallback:
            error = carried.verdict.error
            if carried.worked or error is None or error.kind not in FALLBACK_KINDS or self.stop.problem:
                break
            await self._notice("fallback", f"{self.turn.agent}: {error.message}; {name} takes the turn")
            try:
                attempt = await self._prepare_other(name)
            except OstlerError as problem:
                await self._notice("fallback", f"{name}: {problem}")
                continue
            self.sums = Sums()  # nothing was done, so nothing was used
            carried = await self._attempt(attempt)
        return carried

    async def _prepare_other(self, name: str) -> Attempt:
        agent, model = name_and_model(self.setup.settings, name)
        turn = structs.replace(
            self.turn, agent=agent, model=model, agent_session=None, resume=False, fork=False, first=True
        )
        return await prepare(self.setup, turn)

    async def _by_schema(self, carried: Carried) -> Carried:
        """Validates the answer; asks once for a repair in the same conversation."""
        wanted = self.turn.schema
        if wanted is None or carried.verdict.outcome != "done":
            return carried
        problem, value = _judge(wanted, carried.verdict)
        if problem is not None and carried.verdict.agent_session and not self.stop.problem:
            await self._notice("repair", f"the answer does not fit the schema ({problem}); asking once more")
            repair = structs.replace(
                self.turn,
                prompt=schema.repair(wanted, problem),
                attachments=(),
                agent_session=carried.verdict.agent_session,
                resume=True,
                fork=False,
                first=False,
            )
            carried = await self._attempt(await prepare(self.setup, repair))
            if carried.verdict.outcome != "done":
                return carried
            problem, value = _judge(wanted, carried.verdict)
        if problem is None:
            return structs.replace(carried, verdict=structs.replace(carried.verdict, structured=value))
        error = Problem(kind="invalid_output", message=f"the answer does not fit the schema: {problem}")
        return structs.replace(carried, verdict=structs.replace(carried.verdict, outcome="failed", error=error))

    # -- events

    async def _add(self, events: list[AnyEvent]) -> None:
        if self.edits is not None:
            events = await self.edits.with_diffs(events)
        for event in events:
            if isinstance(event, Started) and event.agent_session:
                await self._confirm(event.agent_session)
        first = bool(events) and not self.running
        self.running = self.running or first
        await self.journal.add(events, first=first)

    async def _confirm(self, agent_session: str) -> None:
        """Keeps the agent's own id before anybody is told of it: a crash must not lose the conversation."""
        if self._is_ours(agent_session) and agent_session != self.session.agent_session:
            self.session = await self.setup.store.change_session(
                self.session.id, agent_session=agent_session, agent=self.turn.agent, served_by=self.served_by
            )

    def _is_ours(self, agent_session: str | None) -> bool:
        """Whether that id belongs to this session: not a stranger's, not a fallback agent's."""
        turn, kept = self.turn, self.session.agent_session
        if agent_session is None or (turn.resume and not turn.fork and agent_session != turn.agent_session):
            return False
        return kept is None or turn.resume or turn.agent == self.session.agent

    async def _notice(self, code: str, text: str) -> None:
        await self.journal.add([Notice(code=code, text=text)])

    # -- the end

    async def _finish(self, carried: Carried) -> Envelope:
        last: list[AnyEvent] = []
        found = Findings(
            turn=self.turn,
            served_by=self.served_by,
            started_at=self.started_at,
            verdict=carried.verdict,
            sums=self.sums,
            exit=carried.exit,
            leaked=carried.leaked,
            name=self.session.name,
        )
        if self.artifacts is not None:
            try:
                last += await self._leave_artifacts(found, self.artifacts)
            except (OSError, OstlerError) as error:
                last.append(Notice(code="artifacts", text=f"the artifacts could not be written: {error}"))
        if self.redactor.holds(found.structured):
            last.append(Notice(code="secret", text="The structured answer may contain a secret: it is kept as it is"))
        envelope = self.redactor.clean(envelope_of(found))
        last.append(Ended(outcome=envelope.outcome, error=envelope.error))
        await self.journal.close(last, lambda events: self._commit(events, envelope))
        return envelope

    async def _leave_artifacts(self, found: Findings, artifacts: Artifacts) -> list[AnyEvent]:
        last: list[AnyEvent] = []
        artifacts.close(found.exit)
        if self.before is not None:
            changed = await asyncio.to_thread(_compare, self.before, artifacts.folder / "before")
            found.files = changed.files
            if changed.text:
                artifacts.write("diff", "changes.diff", changed.text.encode())
            if changed.notice:
                last.append(Notice(code="diff_skipped", text=changed.notice))
        if self.turn.schema is not None and found.verdict.outcome == "done":
            found.structured = found.verdict.structured
            artifacts.write("structured", "structured.json", format(encode(found.structured)))
        artifacts.write("events", "events.ndjson", self._event_lines())
        found.artifacts = artifacts.paths
        return last

    def _event_lines(self) -> Iterator[bytes]:
        """All events of the turn, some thousand at a time: it may have had very many."""
        seen = self.journal.first_seq - 1
        while events := self.setup.store.events(self.session.id, after=seen, limit=_PAGE):
            yield EVENT_ENCODER.encode_lines(events)
            seen = events[-1].seq

    def _commit(self, events: list[AnyEvent], envelope: Envelope) -> Awaitable[bool]:
        now = time.time()
        changes: dict[str, Any] = {"used_at": now, "expires_at": now + self.setup.settings.ttl_days * 86400}
        if self._is_ours(envelope.agent_session):
            changes |= {"agent_session": envelope.agent_session, "agent": self.turn.agent, "served_by": self.served_by}
        if envelope.cost_usd is not None:
            changes["cost_usd"] = (self.session.cost_usd or 0.0) + envelope.cost_usd
        return self.setup.store.end_turn(
            self.turn.id, last=events, envelope=envelope, counters=self.sums.counters, session_changes=changes
        )


def _compare(before: diff.Before, scratch: Path) -> diff.Diff:
    try:
        return diff.compare(before)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _judge(wanted: dict[str, Any], verdict: Verdict) -> tuple[str | None, Any]:
    """What is wrong with the answer (None: nothing), and its value."""
    value = verdict.structured
    if value is None:
        found, value = schema.extract(verdict.text, wanted)
        if not found:
            return "no JSON in the answer", None
    return schema.problem(wanted, value), value


def name_and_model(settings: Settings, name: str) -> tuple[str, str | None]:
    """An agent's name and model for a name, a model or a profile."""
    any_acp.add(AGENTS, settings.acp)
    profile = settings.profiles.get(name)
    if profile is not None and name not in AGENTS:  # no project file may take over an agent's name
        if not (profile.agent or profile.model):
            raise OstlerError("bad_request", f"the profile {name!r} names no agent and no model")
        agent, model = agent_for(profile.agent or profile.model or "", settings.models)
        return agent.name, profile.model or model
    agent, model = agent_for(name, settings.models)
    return agent.name, model


def _failed(outcome: Outcome, problem: Problem) -> Carried:
    return Carried(verdict=Verdict(outcome=outcome, error=problem), exit=None, leaked=(), worked=True)


def new_row(attempt: Attempt, owner: str) -> TurnRow:
    """The turn as the store keeps it: without secrets, and of its environment the names alone."""
    turn = attempt.redactor.clean(attempt.turn)
    turn = structs.replace(turn, env=dict.fromkeys(turn.env, ""), mcp=without_values(turn.mcp))
    return TurnRow(id=turn.id, session=turn.session, state="starting", turn=turn, created_at=time.time(), owner=owner)
