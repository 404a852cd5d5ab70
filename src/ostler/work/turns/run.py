"""The way of one turn: attempts (fallback, repair), proof, diff, envelope, and exactly one end."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs
from msgspec.json import encode, format

from ostler import clock
from ostler.agents.launches import with_attachments
from ostler.agents.tools import ToolNames, with_categories
from ostler.errors import OstlerError, internal_error
from ostler.model import (
    EVENT_ENCODER,
    AnyEvent,
    Ended,
    Envelope,
    FileChange,
    Limited,
    Notice,
    Problem,
    Session,
    Started,
    Turn,
    TurnRow,
    Verdict,
)
from ostler.store.files import private_folder, turn_path
from ostler.work.known_agents import name_and_model
from ostler.work.pool.quota import account_of, backoff, is_retried, used_up, used_up_at_end
from ostler.work.transports.facts import TRANSPORT_FACTS
from ostler.work.transports.launch_log import log_launch
from ostler.work.transports.resources import TransportResources, transport_of
from ostler.work.transports.stop import LeftInPane, Stop, unless_stopped
from ostler.work.transports.transport import Attempt, Carried, TurnContext, nobody
from ostler.work.turns import schema
from ostler.work.turns.artifacts import Artifacts, Recording
from ostler.work.turns.envelope import Counters, Findings, Sums, counters_before, envelope_of
from ostler.work.turns.forwarding import TurnForwarding
from ostler.work.turns.journal import Journal
from ostler.work.turns.mcp_servers import without_values
from ostler.work.turns.options import taken_over, tried_again
from ostler.work.turns.outcomes import (
    failed,
    judge_answer,
    os_problem,
    stopped,
    stopped_tool,
    with_evidence,
    with_wall_hint,
)
from ostler.work.turns.prepare import prepare
from ostler.work.turns.setup import Setup

if TYPE_CHECKING:
    from ostler.work.diff.compare import Before, Diff
    from ostler.work.diff.edits import Edits
    from ostler.work.diff.planted import Marks
    from ostler.work.terminals.turn_terminal import TurnTerminal

_PAGE = 4096  # events at a time
FALLBACK_KINDS = ("missing", "unauthenticated", "limited", "overloaded")

_log = logging.getLogger(__name__)


HandOn = Callable[[Turn, Envelope, str, tuple[str, ...]], Awaitable[TurnRow]]
"""Begins the turn of another agent, by its name, and says who comes after it. Raises what keeps it from that."""


class _End(Struct, frozen=True, kw_only=True):
    """How a turn ended: what is committed in one transaction."""

    envelope: Envelope
    last: list[AnyEvent]


class TurnRun:
    """One turn from its first event to its envelope. `run` ends it exactly once, whatever happens."""

    def __init__(
        self,
        setup: Setup,
        services: TransportResources,
        session: Session,
        first: Attempt,
        *,
        next_seq: int,
        stop: Stop,
        notices: tuple[Notice, ...] = (),
        fallback: tuple[str, ...] = (),
        recording: Recording | None = None,
        terminal: "TurnTerminal | None" = None,
        hand_on: HandOn | None = None,
    ) -> None:
        """`hand_on` lets another agent go on with the work when the quota ends in the middle of it."""
        self.setup = setup
        self.services = services
        self.session = session
        self.turn: Turn = first.turn
        self.first = first
        self.notices = notices
        self.fallback = fallback  # those who were not tried yet
        self.hand_on = hand_on
        self.successor: TurnRow | None = None  # the turn of the agent that goes on
        self.recording = recording
        self.stop = stop
        self.started_at = clock.now()
        self._began = clock.monotonic()
        self.redactor = first.redactor
        self.journal = Journal(setup.store, session.id, self.turn.id, next_seq, self.redactor)
        self.sums = Sums()
        self.served_by = first.served_by
        self.artifacts: Artifacts | None = None
        self.before: Before | None = None  # the folder, where the turn may change it
        self.marks: Marks | None = None  # and what of it could give power
        self.edits: Edits | None = None
        self.terminal = terminal  # where it can be watched, if it has no terminal of its own
        self.running = False
        self.tools: ToolNames = {}  # of the agent whose records come
        self.forwarding = TurnForwarding(setup.settings, setup.store, services.sender)
        self._committed: asyncio.Future[Session | None] | None = None  # the last try to write the end
        self._end: _End | None = None

    async def run(self) -> Envelope:
        """Carries the turn to its end; the only way out is an envelope, or a store that cannot be written.

        Then `write_end` is to be called again, until it succeeds.
        """
        try:
            carried = await self._run_attempts()
        except LeftInPane as left:
            if self.artifacts is not None:
                self.artifacts.close()
            self.journal.fail(left)
            raise
        interrupted: BaseException | None = None
        try:
            self._end = await self._handed_on(carried, await self._conclude(carried))
        except BaseException as error:  # a fault of ours, or the end of the loop: it ends all the same
            interrupted = error
            if isinstance(error, Exception):
                _log.error("turn %s: this is a bug in ostler", self.turn.id, exc_info=error)
            self._end = self._bare_end(carried, error)
        try:
            await self._park(self._end.envelope)
            await self.write_end()
        except BaseException as error:
            self.journal.fail(error)
            raise
        finally:
            self._log_end(self._end.envelope)
            if self.terminal is not None:
                await self.terminal.end(self._end.envelope, written=self.journal.ended is not None)
        await self.forwarding.deliver(self.turn)
        if isinstance(interrupted, asyncio.CancelledError):
            raise interrupted
        return self._end.envelope

    async def _park(self, envelope: Envelope) -> None:
        account = account_of(self.turn, self.setup.settings)
        if (found := used_up_at_end(account, envelope.error, clock.now())) is not None:
            await self.setup.store.park(found.account, found.until, found.message)

    def _log_end(self, envelope: Envelope) -> None:
        why = f" ({envelope.error.kind}: {envelope.error.message})" if envelope.error else ""
        seconds = clock.monotonic() - self._began
        _log.info("turn %s: %s%s after %.1f s", envelope.turn, envelope.outcome, why, seconds)

    @property
    def owes_its_end(self) -> bool:
        """It is over, and the store does not know."""
        return self._end is not None and self.journal.ended is None

    async def write_end(self) -> None:
        """Commits how the turn ended, once. Raises `store`; can be repeated."""
        assert self._end is not None
        end = self._end
        await self.journal.close(end.last, lambda events: self._commit(events, end.envelope))

    async def _run_attempts(self) -> Carried:
        """How the attempts went, whatever happened."""
        try:
            return await self._body()
        except asyncio.CancelledError:
            return failed("cancelled", Problem(kind="cancelled", message="cancelled"))
        except LeftInPane:
            raise
        except OstlerError as error:
            problem = Problem.of(error)
            return failed("failed", problem)
        except OSError as error:
            return failed("failed", os_problem(error))
        except Exception as error:
            _log.exception("turn %s: this is a bug in ostler", self.turn.id)
            return failed("crashed", Problem(kind="crashed", message=internal_error(error)))

    # -- the attempts

    async def _body(self) -> Carried:
        if self.terminal is not None:
            self.terminal.open()
            self.journal.listener = self.terminal.feed
        folder = turn_path(self.setup.store.folder, self.session.id, self.turn.id)
        self.artifacts = Artifacts(folder, self.redactor, self.recording)
        asked = with_attachments(self.turn.prompt, self.turn.attachments)
        self.artifacts.write("prompt", "prompt.txt", self.redactor.text(asked).encode())
        if self.turn.access != "read":
            self._compare_with(await asyncio.to_thread(self._look, private_folder(f"{folder}/before")))
        if self.turn.access == "write":
            self.marks = await asyncio.to_thread(self._look_for_power, f"{folder}/before")
        await self._keep(self.notices)
        carried = await self._retry(await self._attempt(self.first))
        carried = await self._fall_back(carried)
        return await self._by_schema(carried)

    def _look(self, scratch: Path) -> "Before":
        from ostler.work.diff.compare import keep, look

        exclude = frozenset(self.first.launch.folder_files)
        before = look(self.turn.folder, str(scratch), exclude, state=self.setup.settings.home, env=self.setup.environ)
        if TRANSPORT_FACTS[self.first.transport].survives:  # another process may be the one that compares
            keep(before, str(scratch))
        return before

    def _look_for_power(self, scratch: str) -> "Marks":
        from ostler.work.diff.planted import keep_marks, marks_of

        marks = marks_of(self.turn.folder)
        if TRANSPORT_FACTS[self.first.transport].survives:
            keep_marks(marks, scratch)
        return marks

    def _compare_with(self, before: "Before") -> None:
        from ostler.work.diff.edits import Edits

        self.before = before
        self.edits = Edits(self.turn.folder, before)

    async def _attempt(self, attempt: Attempt) -> Carried:
        assert self.artifacts is not None
        if self.stop.problem is not None:  # before anything was spawned
            return stopped(self.stop.problem)
        self.turn, self.served_by = attempt.turn, attempt.served_by
        self.tools = self.setup.agents.get(attempt.records_of, attempt.agent).tools
        if self.recording is not None:
            prompt = self.redactor.text(attempt.turn.prompt)
            self.recording.begin(agent=attempt.records_of, argv=self.redactor.clean(attempt.launch.argv), prompt=prompt)
        await self._keep(Notice(text=text, code="launch") for text in attempt.launch.notices)
        log_launch(attempt)
        carried = await self._run(attempt, self.artifacts)
        carried = with_wall_hint(carried) if attempt.wall is not None else carried
        self.sums.add(attempt.turn, carried.verdict, self._counters_before(attempt.turn, carried.verdict))
        return carried

    def _counters_before(self, turn: Turn, verdict: Verdict) -> Counters | None:
        """Where the agent's counters stood, for agents that tell what the conversation cost and not the turn."""
        if not verdict.cumulative or self.sums.counters:
            return self.sums.counters
        return counters_before(self.setup.store.last_ended(self.session.id), turn.agent_session)

    async def _run(self, attempt: Attempt, artifacts: Artifacts) -> Carried:
        context = TurnContext(
            add=self._add,
            artifacts=artifacts,
            stop=self.stop,
            settings=self.setup.settings,
            set_asking=self._set_asking,
            shown=self.terminal.raw if self.terminal is not None else nobody,
        )
        transport = transport_of(attempt.transport, self.services)
        if attempt.callback is None:
            return await transport.run(attempt, context)
        from ostler.work.hooks.hook_turn import Journaling

        journaling = Journaling(
            add=self._add, confirm=self._confirm, set_asking=self._set_asking, settings=self.setup.settings
        )
        async with self.services.callbacks().listening(attempt, journaling) as hooks:
            carried = await transport.run(attempt, structs.replace(context, hooks=hooks))
        return with_evidence(carried, hooks)

    async def _set_asking(self, asking: bool) -> None:
        self.running = True
        await self.setup.store.change_turn(self.turn.id, "asking" if asking else "running")

    async def _retry(self, carried: Carried) -> Carried:
        """The same agent tries again, as long as nothing was done yet and its server was only in trouble."""
        for attempt in range(1, self.setup.settings.pool.retries + 1):
            error = carried.verdict.error
            if not is_retried(error, carried.worked) or self.stop.problem or error is None:
                break
            pause = backoff(attempt, os.urandom(1)[0] / 255)
            await self._notice("retry", f"{self.turn.agent}: {error.message}; trying again in {pause:.0f} s")
            try:
                await unless_stopped(asyncio.sleep(pause), self.stop)
            except OstlerError:
                break  # it was stopped: the attempt says so
            self.sums = Sums()  # nothing was done, so nothing was used
            carried = await self._attempt(await prepare(self.setup, tried_again(self.turn)))
        return carried

    async def _fall_back(self, carried: Carried) -> Carried:
        """The next agent takes the turn, as long as nothing was done yet."""
        while self.fallback:
            error = carried.verdict.error
            if carried.worked or error is None or error.kind not in FALLBACK_KINDS or self.stop.problem:
                break
            name, *left = self.fallback
            self.fallback = tuple(left)
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
        return await prepare(self.setup, taken_over(self.turn, agent, model))

    async def _by_schema(self, carried: Carried) -> Carried:
        """Validates the answer; asks once for a repair in the same conversation."""
        wanted = self.turn.schema
        if wanted is None or carried.verdict.outcome != "done":
            return carried
        problem, value = judge_answer(wanted, carried.verdict)
        if problem is not None and carried.verdict.agent_session and not self.stop.problem:
            await self._notice("repair", f"the answer does not match the schema ({problem}); asking once more")
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
            problem, value = judge_answer(wanted, carried.verdict)
        if problem is None:
            return structs.replace(carried, verdict=structs.replace(carried.verdict, structured=value))
        error = Problem(kind="invalid_output", message=f"the answer does not match the schema: {problem}")
        return structs.replace(carried, verdict=structs.replace(carried.verdict, outcome="failed", error=error))

    # -- events

    async def _add(self, events: list[AnyEvent]) -> None:
        events = with_categories(events, self.tools)
        if self.stop.problem is not None:
            events = [stopped_tool(event) for event in events]
        if self.edits is not None:
            events = await self.edits.with_diffs(events)
        for event in events:
            if isinstance(event, Started) and event.agent_session:
                await self._confirm(event.agent_session)
        await self._note_quota(events)
        first = bool(events) and not self.running
        if first:
            _log.debug("turn %s: the first record came after %.2f s", self.turn.id, clock.monotonic() - self._began)
        self.running = self.running or first
        await self._keep(events, first)

    async def _note_quota(self, events: list[AnyEvent]) -> None:
        """A quota that is used up for some time keeps further turns of the account from starting."""
        if not any(isinstance(event, Limited) for event in events):
            return
        if (found := used_up(account_of(self.turn, self.setup.settings), events, clock.now())) is not None:
            await self.setup.store.park(found.account, found.until, found.message)

    async def _keep(self, events: Iterable[AnyEvent], first: bool = False) -> None:
        """In the journal, and for those elsewhere who are to be told of it."""
        await self.forwarding.add(self.session, await self.journal.add(events, first=first))

    async def _confirm(self, agent_session: str, renewed: bool = False) -> None:
        """Keeps the agent's own id before anybody is told of it: a crash must not lose the conversation.

        `renewed`: somebody has cleared the conversation, so that it has another id than the one that was resumed.
        """
        if (renewed or self._is_ours(agent_session)) and agent_session != self.session.agent_session:
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
        _log.info("turn %s: %s", self.turn.id, self.redactor.text(text))
        await self._keep([Notice(code=code, text=text)])

    # -- the end

    async def _conclude(self, carried: Carried) -> "_End":
        """What is known of the turn now that it is over; its artifacts are written here."""
        last: list[AnyEvent] = []
        found = self._findings(carried)
        if self.artifacts is not None:
            try:
                last += await self._leave_artifacts(found, self.artifacts)
            except (OSError, OstlerError) as error:
                last.append(Notice(code="artifacts", text=f"the artifacts could not be written: {error}"))
        if self.redactor.holds(found.structured):
            last.append(Notice(code="secret", text="The structured answer may contain a secret: it is kept as it is"))
        return self._end_of(found, last)

    async def _handed_on(self, carried: Carried, end: "_End") -> "_End":
        """Where the quota ended in the middle of the work, the next agent goes on in a session of its own."""
        error = carried.verdict.error
        if self.hand_on is None or not carried.worked or error is None or error.kind != "limited" or self.stop.problem:
            return end
        notices: list[AnyEvent] = []
        envelope = end.envelope
        while self.fallback and self.successor is None:
            name, *left = self.fallback
            self.fallback = tuple(left)
            try:
                self.successor = await self.hand_on(self.turn, envelope, name, self.fallback)
            except OstlerError as problem:
                notices.append(Notice(code="handed", text=f"{name}: {problem}"))
                continue
            envelope = structs.replace(envelope, handed_to=self.successor.session)
            text = f"{self.turn.agent}: {error.message}; {name} goes on in session {self.successor.session}"
            notices.append(Notice(code="handed", text=text))
        return _End(envelope=envelope, last=[*notices, *end.last])

    def _bare_end(self, carried: Carried, error: BaseException) -> "_End":
        """The same without artifacts, when those failed in a way that nobody expected."""
        return self._end_of(self._findings(carried), [Notice(code="artifacts", text=internal_error(error))])

    def _findings(self, carried: Carried) -> Findings:
        return Findings(
            turn=self.turn,
            served_by=self.served_by,
            started_at=self.started_at,
            seconds=clock.monotonic() - self._began,
            verdict=carried.verdict,
            sums=self.sums,
            exit=carried.exit,
            leaked=carried.leaked,
            name=self.session.name,
            handed_from=self.session.handed_from,
        )

    def _end_of(self, found: Findings, last: list[AnyEvent]) -> "_End":
        envelope = self.redactor.clean(envelope_of(found))
        return _End(envelope=envelope, last=[*last, Ended(outcome=envelope.outcome, error=envelope.error)])

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
        if self.marks is not None:
            found.planted = await asyncio.to_thread(_planted, self.marks, self.turn.folder, found.files)
        if self.turn.schema is not None and found.verdict.outcome == "done":
            found.structured = found.verdict.structured
            artifacts.write("structured", "structured.json", format(encode(found.structured)))
        artifacts.write("events", "events.ndjson", self._event_lines())
        found.artifacts = artifacts.paths
        return last

    def _event_lines(self) -> Iterator[bytes]:
        """All events of the turn, some thousand at a time: it may have had very many."""
        if (few := self.journal.all_in_memory()) is not None:
            yield EVENT_ENCODER.encode_lines(few)
            return
        seen = self.journal.first_seq - 1
        while events := self.setup.store.events(self.session.id, after=seen, limit=_PAGE):
            yield EVENT_ENCODER.encode_lines(events)
            seen = events[-1].seq

    def _commit(self, events: list[AnyEvent], envelope: Envelope) -> asyncio.Future[Session | None]:
        now = clock.now()
        changes: dict[str, Any] = {"used_at": now, "expires_at": now + self.setup.settings.ttl_days * 86400}
        if self._is_ours(envelope.agent_session):
            changes |= {"agent_session": envelope.agent_session, "agent": self.turn.agent, "served_by": self.served_by}
        self._committed = self.setup.store.end_turn(
            self.turn.id,
            last=events,
            envelope=envelope,
            counters=self.sums.counters,
            session_changes=changes,
            terminal=self.terminal.written_end(events, envelope) if self.terminal is not None else None,
            outgoing=self.forwarding.rows_of_end(self.session, events, envelope),
        )
        return self._committed

    @property
    def session_after(self) -> Session | None:
        """As it was when the turn ended; None: this run did not write the end."""
        if self._committed is None or self.journal.ended is None:
            return None
        return self._committed.result()


def _planted(before: "Marks", folder: str, files: tuple[FileChange, ...]) -> tuple[FileChange, ...]:
    from ostler.work.diff.planted import marks_of, planted

    return planted(before, marks_of(folder), files)


def _compare(before: "Before", scratch: Path) -> "Diff":
    import shutil

    from ostler.work.diff.compare import compare

    try:
        return compare(before)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def new_row(attempt: Attempt, owner: str) -> TurnRow:
    """The turn as the store keeps it: without secrets, and of its environment the names alone.

    What was found out about its files is kept, so that whoever looks later knows an image from another file.
    """
    files = tuple(structs.replace(file, data="") for file in attempt.effective_turn.attachments)
    turn = attempt.redactor.clean(structs.replace(attempt.turn, attachments=files))
    turn = structs.replace(turn, env=dict.fromkeys(turn.env, ""), mcp=without_values(turn.mcp))
    return TurnRow(id=turn.id, session=turn.session, state="starting", turn=turn, created_at=clock.now(), owner=owner)
