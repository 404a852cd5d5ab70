"""What the doctor finds out by trying: an agent's own sandbox, and whether its model answers."""

import os
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from ostler.agents import Agent
from ostler.agents.adapter import OwnSandbox
from ostler.errors import OstlerError
from ostler.model import Envelope, Limits, Problem
from ostler.settings import Settings
from ostler.work.own_sandbox import try_sandbox
from ostler.work.probe import AgentReport, OnlineAnswer, chosen, find, on_path, report
from ostler.work.turns.environment import child_environment
from ostler.work.turns.setup import NotesCache, Setup

if TYPE_CHECKING:
    from ostler.work.ostler import Ostler

PROMPT = "This is a test of the connection. Answer with the single word ok, and use no tools."
LIMITS = Limits(first_record=60.0, idle=60.0, total=120.0, retry=20.0)


class CheckupScope(NamedTuple):
    """What is tried beyond looking."""

    sandboxes: bool
    online: bool


async def examine(o: "Ostler", setup: Setup, agent: Agent, wanted: CheckupScope) -> AgentReport:
    """Everything that can be told of an agent. Raises nothing."""
    about = await report(agent, setup.environ, setup.settings, setup.probes or NotesCache(o.store))
    if wanted.sandboxes:
        about = await with_sandbox(about, agent, setup.environ, setup.settings)
    return await ask_online(o, about) if wanted.online else about


async def with_sandbox(about: AgentReport, agent: Agent, environ: Mapping[str, str], settings: Settings) -> AgentReport:
    """The same, and whether the agent's own sandbox works here, where access relies on one."""
    path = environ.get("PATH", os.defpath)
    prefix = find(agent, path, chosen(settings, agent.name))
    if agent.sandbox is None or prefix is None or about.problem or not sys.platform.startswith("linux"):
        return about
    if missing := [name for name in agent.sandbox.programs if on_path(name, path) is None]:
        problem = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not on PATH"
        return structs.replace(about, sandbox="broken", sandbox_problem=_with_hint(problem, agent.sandbox))
    if not agent.sandbox.check:
        return structs.replace(about, sandbox="unknown", sandbox_problem=f"{agent.title} cannot check it")
    env = child_environment(environ, agent, add=settings.env, pass_patterns=settings.env_pass, launch_env={})
    trial = await try_sandbox(agent, prefix, env, path)
    problem = _with_hint(trial.problem, agent.sandbox) if trial.state == "broken" else trial.problem
    return structs.replace(about, sandbox=trial.state, sandbox_problem=problem)


def _with_hint(problem: str, sandbox: OwnSandbox) -> str:
    return ". ".join(filter(None, (problem, sandbox.needs)))


async def ask_online(o: "Ostler", about: AgentReport) -> AgentReport:
    """The same, and what the agent answered to one tiny turn, of which nothing is kept."""
    if not about.installed or about.problem:
        return about
    try:
        envelope = await _tiny_turn(o, about.name)
    except OstlerError as error:
        return _answered(about, Problem.of(error), "")
    return _answered(about, envelope.error, _answer_text(envelope))


async def _tiny_turn(o: "Ostler", agent: str) -> Envelope:
    """In an empty folder, read-only, and by nobody else in its place."""
    with tempfile.TemporaryDirectory(prefix="ostler-doctor-") as folder:
        session = await o.session(agent, folder=folder, access="read")
        try:
            return await session.run(PROMPT, limits=LIMITS, fallback=())
        finally:
            with suppress(OstlerError):  # it never got as far as the store
                await o.remove(session.id)


def _answer_text(envelope: Envelope) -> str:
    by = envelope.model or (envelope.served_by if envelope.served_by != envelope.agent else "")
    return f"answered in {envelope.duration_ms / 1000:.1f} s" + (f" ({by})" if by else "")


def _answered(about: AgentReport, problem: Problem | None, answer: str) -> AgentReport:
    """An answer is the best proof of a login; what is no error of the login says nothing of it."""
    if problem is None:
        return structs.replace(about, login="yes", online=OnlineAnswer(ok=True, text=answer))
    text = ". ".join(filter(None, (f"{problem.kind}: {problem.message}", problem.hint)))
    login = "no" if problem.kind == "unauthenticated" else about.login
    return structs.replace(about, login=login, online=OnlineAnswer(ok=False, text=text))
